import type { JsonFields } from './json-fields.js';

/**
 * Fields with which no model computes anything else here: files, tokens, generation, other heads, older
 * names, the loss that balances experts (a run states its own).
 */
const harmless =
  /^(_|model_type$|architectures$|auto_map$|transformers|(torch_)?dtype$|.*_token(_id)?$|use_cache$|n_ctx$|pretraining_tp$)|^(is_llama_config|rope_interleaved|unsloth|task_specific_params|summary_|output_|return_dict|torchscript|(id2label|label2id)$|num_labels$|problem_type$|gradient_checkpointing$|tokenizer_class$|finetuning_task$|prefix$|embd_pdrop$|router_aux_loss_coef$)/;

/**
 * What a config.json says that nothing is known of here, so that a user can tell whether it matters: fields
 * that are not null, false or empty.
 */
export function unknownFields({ path, values }: JsonFields, read: ReadonlySet<string>): readonly string[] {
  const isSet = (value: unknown): boolean =>
    value !== null && value !== false && JSON.stringify(value) !== '{}' && JSON.stringify(value) !== '[]';
  const unknown = Object.entries(values).filter(
    ([name, value]) => !read.has(name) && !harmless.test(name) && isSet(value),
  );
  return unknown.length === 0
    ? []
    : [`${path}: nothing here computes with ${unknown.map(([name]) => name).join(', ')}`];
}
