/**
 * The JSON files of a model's original directory. When the model is saved, their fields are written again.
 */
export interface HuggingFaceOrigin {
  /** The contents of config.json. */
  readonly config: Readonly<Record<string, unknown>>;
  /** The contents of generation_config.json, if this file exists in the directory. */
  readonly generation?: Readonly<Record<string, unknown>> | undefined;
}

// fields about the files or about the library that wrote them, which do not describe the model
const notKept = new Set(['_name_or_path', 'auto_map', 'dtype', 'torch_dtype', 'transformers_version']);

/** Returns the fields to write again. The caller then replaces every field that describes the model. */
export const keptFields = (fields: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => !notKept.has(name)));

/**
 * Returns true if the original model ends texts with one of `endTokens`, so that its own list of end tokens
 * is still valid. Also returns true if `endTokens` is empty.
 */
export function endsTexts({ config, generation }: HuggingFaceOrigin, endTokens: readonly number[]): boolean {
  const known = [config.eos_token_id, generation?.eos_token_id].flat();
  return endTokens.length === 0 || endTokens.some((token) => known.includes(token));
}

/**
 * Returns the field `eos_token_id` for generation_config.json if a fine-tuned model ends texts with new
 * tokens, such as the end of a turn. Otherwise, returns no field.
 */
export function addedEnds(
  { config, generation }: HuggingFaceOrigin,
  endTokens: readonly number[],
): Readonly<Record<string, unknown>> {
  const known = [config.eos_token_id, generation?.eos_token_id].flat();
  const added = endTokens.filter((token) => !known.includes(token));
  const before = [generation?.eos_token_id ?? config.eos_token_id].flat();
  return added.length === 0 ? {} : { eos_token_id: [...before, ...added] };
}
