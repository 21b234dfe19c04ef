"""Arrays -> small pictures: crisp pixels in a frame that is seen on white and on black, sheets of them, and their URLs.

No Streamlit, as in `charts`.
"""

from __future__ import annotations

import io
from base64 import b64encode

import numpy as np
from PIL import Image

SHEET_COLUMNS, SHEET_ROWS = 14, 3
FRAME, FRAME_MARKED = (128, 128, 128, 255), (213, 94, 0, 255)  # seen on white and on black


def gray(images: np.ndarray) -> np.ndarray:
    """Images from 0 to 1 as bytes."""
    return np.round(255 * images.clip(0, 1)).astype(np.uint8)


def enlarged(image: np.ndarray, times: int, marked: bool = False) -> np.ndarray:
    """A gray image (H, W) with crisp pixels in a frame, RGBA."""
    big = np.repeat(np.repeat(image, times, axis=0), times, axis=1)
    width = 3 if marked else 1
    framed = np.full((len(big) + 2 * width, big.shape[1] + 2 * width, 4), FRAME_MARKED if marked else FRAME, np.uint8)
    framed[width:-width, width:-width] = np.dstack([big, big, big, np.full_like(big, 255)])
    return framed


def sheet(images: np.ndarray, marked: int) -> np.ndarray:
    """Gray images (N, H, W) as thumbnails in rows, one of them marked, RGBA; its size does not depend on N."""
    side = 3 * images.shape[1] + 6
    cells = [np.zeros((side, side, 4), np.uint8)] * (SHEET_COLUMNS * SHEET_ROWS)
    for k, image in enumerate(images[: len(cells)]):
        gap = 0 if k == marked else 2
        cells[k] = np.pad(enlarged(image, 3, k == marked), ((gap, gap), (gap, gap), (0, 0)))
    return np.vstack([np.hstack(cells[k : k + SHEET_COLUMNS]) for k in range(0, len(cells), SHEET_COLUMNS)])


def data_url(image: np.ndarray) -> str:
    """A gray image for a style sheet."""
    file = io.BytesIO()
    Image.fromarray(image).save(file, "png")
    return f"url(data:image/png;base64,{b64encode(file.getvalue()).decode()})"
