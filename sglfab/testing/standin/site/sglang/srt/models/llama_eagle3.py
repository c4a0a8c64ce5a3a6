"""The draft's classes and methods, by SGLang's names, without tensors."""

from sglang.srt.layers.logits_processor import LogitsProcessor
from sglang.srt.models.llama import LlamaForCausalLM


class LlamaDecoderLayer:
    def forward(self, positions, embeds, hidden_states, forward_batch, residual):
        return hidden_states, residual


class LlamaModel:
    def __init__(self, config=None):
        self.config = config
        self.layers = [LlamaDecoderLayer()]

    def fc(self, hidden_states):
        return hidden_states

    def norm(self, hidden_states, residual):
        return hidden_states, hidden_states

    def forward(self, input_ids, positions, forward_batch, input_embeds=None, pp_proxy_tensors=None):
        hidden_states = forward_batch.spec_info.hidden_states
        hidden_states = self.fc(hidden_states)
        residual = None
        for layer in self.layers:
            hidden_states, residual = layer.forward(positions, input_ids, hidden_states, forward_batch, residual)
        hidden_states_to_logits, hidden_states_to_aux = self.norm(hidden_states, residual)
        return hidden_states_to_logits, [hidden_states_to_aux]


class LlamaForCausalLMEagle3(LlamaForCausalLM):
    def __init__(self, config=None):
        super().__init__(config)
        self.model = LlamaModel(config)
        self.logits_processor = LogitsProcessor(config)
        self.hot_token_id = None

    def load_weights(self, weights):
        for name, loaded_weight in weights:
            if "d2t" in name:
                self.hot_token_id = loaded_weight

    def get_hot_token_id(self):
        return self.hot_token_id


EntryClass = [LlamaForCausalLMEagle3]
