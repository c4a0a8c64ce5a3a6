"""The class that the EAGLE-3 draft inherits its forward from."""


class LlamaForCausalLM:
    def __init__(self, config=None):
        self.config = config
        self.model = None
        self.logits_processor = None
        self.lm_head = None

    def forward(  # noqa: PLR0917  (SGLang's own signature)
        self, input_ids, positions, forward_batch, input_embeds=None, get_embedding=False, pp_proxy_tensors=None
    ):
        hidden_states, aux_hidden_states = self.model.forward(input_ids, positions, forward_batch, input_embeds)
        return self.logits_processor.forward(input_ids, hidden_states, self.lm_head, forward_batch, aux_hidden_states)


EntryClass = [LlamaForCausalLM]
