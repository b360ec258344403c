/**
 * The JSON files of the directory that a model was read from. Their fields are written again when the model
 * is saved.
 */
export interface HuggingFaceOrigin {
  /** The contents of config.json. */
  readonly config: Readonly<Record<string, unknown>>;
  /** The contents of generation_config.json, if the directory has one. */
  readonly generation?: Readonly<Record<string, unknown>> | undefined;
}

// fields about the files, or about the library that wrote them, not about the model
const notKept = new Set(['_name_or_path', 'auto_map', 'dtype', 'torch_dtype', 'transformers_version']);

/** Returns the fields to write again; the caller gives precedence to the fields that describe the model. */
export const keptFields = (fields: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => !notKept.has(name)));

/**
 * Returns whether the original model used one of these tokens to end texts. Its list of end tokens then
 * remains right. Also true for an empty list.
 */
export function endsTexts({ config, generation }: HuggingFaceOrigin, endTokens: readonly number[]): boolean {
  const known = [config.eos_token_id, generation?.eos_token_id].flat();
  return endTokens.length === 0 || endTokens.some((token) => known.includes(token));
}

/**
 * Returns the `eos_token_id` for generation_config.json if a fine-tuned model ends texts with tokens that the
 * original model did not use, such as the end of a turn; otherwise no field.
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
