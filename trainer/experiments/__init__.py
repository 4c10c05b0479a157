"""Studies of a file: arms trained, searched with, compared; every finished row is kept in a small export.

`plan.py` reads the file and says all that is wrong, `export.py` keeps the rows, `trainings.py` and
`searches.py` make those that are missing, `results.py` computes figures from them, `report.py` shows them.
"""
