"""The ``Alignment`` type, its file formats, and symmetrisation."""
