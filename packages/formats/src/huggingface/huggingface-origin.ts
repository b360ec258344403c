/**
 * Fields that a model keeps from the directory that it was read from, apart from weights and tokenizer: they
 * are written again when the model is saved.
 */
export interface HuggingFaceOrigin {
  /** The contents of config.json. */
  readonly config: Readonly<Record<string, unknown>>;
  /** The contents of generation_config.json, if the directory has one. */
  readonly generation?: Readonly<Record<string, unknown>> | undefined;
}

// fields that describe the files, or the library that wrote them, and not the model
const notKept = new Set(['_name_or_path', 'auto_map', 'dtype', 'torch_dtype', 'transformers_version']);

/** Returns the fields that are written again; fields that describe the model take precedence over them. */
export const keptFields = (fields: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => !notKept.has(name)));

/**
 * Returns whether one of these tokens ended texts in the original model, so that its list of end tokens is
 * right.
 */
export function endsTexts({ config, generation }: HuggingFaceOrigin, endTokens: readonly number[]): boolean {
  const known = [config.eos_token_id, generation?.eos_token_id].flat();
  return endTokens.length === 0 || endTokens.some((token) => known.includes(token));
}

/**
 * Returns the end tokens for generation_config.json if a model has learned to end texts with tokens that the
 * original model did not use, such as the end of a turn; otherwise nothing.
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
