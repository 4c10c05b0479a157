"""Studies of a file: arms trained, searched with, compared; every finished row is kept in a small export.

`study_file` reads the file into `records` and says all that is wrong, `export` keeps the rows, `trainings`,
`run` makes those that are missing, `results` computes figures from them and `verdict`
says what they mean. `studies/` holds the studies that come with the package.
"""
