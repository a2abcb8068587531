"""Harm to arrays of a folder: values and shapes that would lead compiled code astray."""

from collections.abc import Callable

import numpy as np

BIG, NAN = 10**9, float("nan")


def put(position: int, value: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        array = array.copy()
        array.reshape(-1)[position] = value
        return array

    return change


def as_type(dtype: type) -> Callable[[np.ndarray], np.ndarray]:
    return lambda array: array.astype(dtype)


def shorter(array: np.ndarray) -> np.ndarray:
    return array[..., :-1]
