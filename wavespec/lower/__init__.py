"""The passes, one file each; `order.py` lists them."""
