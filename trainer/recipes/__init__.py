"""The bundled recipes of the VPO paper, in the folder `paper`."""
