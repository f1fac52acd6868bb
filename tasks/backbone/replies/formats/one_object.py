"""Reply format "json": one JSON object and nothing else."""

from tasks.backbone.replies.format import ReplyFormat
from tasks.settings.backbone import REPLY_FORMATS

REPLY_FORMATS.register("json")(ReplyFormat)
