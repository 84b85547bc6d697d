"""Lu, Zeng, Zhang, Wu and Li (2021): attention that is calibrated by masks."""
