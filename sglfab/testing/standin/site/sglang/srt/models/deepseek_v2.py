"""The target's classes and methods, by SGLang's names, without tensors. “Not SGLang”: non-ASCII, as there."""

from sglang.srt.layers.logits_processor import LogitsProcessor


class DeepseekV2MoE:
    def forward(self, hidden_states, *args, **kwargs):
        return hidden_states


class DeepseekV2AttentionMLA:
    def forward(self, positions, hidden_states, forward_batch, *args, **kwargs):
        return hidden_states


class DeepseekV2DecoderLayer:
    def forward(self, positions, hidden_states, forward_batch, *args, **kwargs):
        return hidden_states, None


class DeepseekV2Model:
    def __init__(self, config=None):
        self.config = config
        self.layers = [DeepseekV2DecoderLayer() for _ in range(8)]
        self.layers_to_capture = []

    def embed_tokens(self, input_ids):
        return input_ids

    def forward(self, input_ids, positions, forward_batch, input_embeds=None, pp_proxy_tensors=None):
        hidden_states = self.embed_tokens(input_ids)
        aux_hidden_states = []
        for i in range(len(self.layers)):
            if i in self.layers_to_capture:
                aux_hidden_states.append(hidden_states)
            hidden_states, _ = self.layers[i].forward(positions, hidden_states, forward_batch)
        if not aux_hidden_states:
            return hidden_states
        return hidden_states, aux_hidden_states


class DeepseekV2ForCausalLM:
    def __init__(self, config=None):
        self.config = config
        self.model = DeepseekV2Model(config)
        self.logits_processor = LogitsProcessor(config)
        self.lm_head = None
        self.capture_aux_hidden_states = False

    def forward(self, input_ids, positions, forward_batch, input_embeds=None, pp_proxy_tensors=None):
        hidden_states = self.model.forward(input_ids, positions, forward_batch, input_embeds, pp_proxy_tensors)
        aux_hidden_states = None
        if self.capture_aux_hidden_states:
            hidden_states, aux_hidden_states = hidden_states
        return self.logits_processor.forward(input_ids, hidden_states, self.lm_head, forward_batch, aux_hidden_states)

    def load_weights(self, weights, is_nextn=False):
        for _ in weights:
            pass

    def get_embed_and_head(self):
        return None, self.lm_head

    def set_embed_and_head(self, embed, head):
        self.lm_head = head

    def set_eagle3_layers_to_capture(self, layer_ids=None):
        self.capture_aux_hidden_states = True
        self.model.layers_to_capture = list(layer_ids or [2, 4, 5])


class DeepseekV3ForCausalLM(DeepseekV2ForCausalLM):
    pass


EntryClass = [DeepseekV2ForCausalLM, DeepseekV3ForCausalLM]
