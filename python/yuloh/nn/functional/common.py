# SPDX-License-Identifier: Apache-2.0
"""Functional room: linear maps, dropout, padding and resizing."""

__all__ = []
