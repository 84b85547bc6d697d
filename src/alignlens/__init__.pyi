from alignlens.api.measured import score as score
from alignlens.api.measured import symmetrize as symmetrize
from alignlens.api.models import calibrate as calibrate
from alignlens.api.models import load as load

__version__: str
