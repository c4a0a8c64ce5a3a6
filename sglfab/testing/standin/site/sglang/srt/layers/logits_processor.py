"""The logits processor's classes and methods, by SGLang's names, without tensors. “Not SGLang”."""


class LogitsProcessorOutput:
    def __init__(self, next_token_logits, hidden_states=None):
        self.next_token_logits = next_token_logits
        self.hidden_states = hidden_states


class LogitsMetadata:
    @classmethod
    def from_forward_batch(cls, forward_batch):
        return cls()


class LogitsProcessor:
    def __init__(self, config=None):
        self.config = config

    def _get_logits(self, hidden_states, lm_head, logits_metadata, embedding_bias=None):
        return hidden_states

    def forward(  # noqa: PLR0917  (SGLang's own signature)
        self, input_ids, hidden_states, lm_head, logits_metadata, aux_hidden_states=None, hidden_states_before_norm=None
    ):
        logits_metadata = LogitsMetadata.from_forward_batch(logits_metadata)
        logits = self._get_logits(hidden_states, lm_head, logits_metadata)
        return LogitsProcessorOutput(logits, aux_hidden_states or hidden_states)
