/** The text of a token in tokenizer_config.json, where it is a string or an object. */
export function tokenText(token: unknown): string | undefined {
  if (typeof token === 'string') return token;
  const content = (token as { content?: unknown } | null | undefined)?.content;
  return typeof content === 'string' ? content : undefined;
}
