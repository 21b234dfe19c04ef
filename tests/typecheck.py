"""The checker of annotations: beartype, with PEP 484's rule that an int may stand where a float is meant."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
