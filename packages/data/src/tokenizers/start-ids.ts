/** A post-processor of a tokenizer.json, as far as it is read; everything in it is checked. */
interface PostProcessor {
  readonly type?: unknown;
  readonly processors?: unknown;
  readonly single?: unknown;
  readonly special_tokens?: unknown;
}

/** The special tokens that a post-processor puts before a text: those of its template for single texts. */
export function startIdsOf(postProcessor: unknown): readonly number[] | undefined {
  const found = (postProcessor ?? {}) as PostProcessor;
  if (found.type === 'Sequence' && Array.isArray(found.processors)) {
    return found.processors.map(startIdsOf).find((ids) => ids !== undefined);
  }
  if (found.type !== 'TemplateProcessing' || !Array.isArray(found.single)) return undefined;
  const tokens = (found.special_tokens ?? {}) as Readonly<Record<string, { readonly ids?: unknown } | null>>;
  const ids: number[] = [];
  for (const piece of found.single as readonly ({
    readonly SpecialToken?: { readonly id?: unknown };
  } | null)[]) {
    if (piece?.SpecialToken === undefined) break;
    const own = tokens[String(piece.SpecialToken.id)]?.ids;
    if (Array.isArray(own)) ids.push(...own.filter((id): id is number => Number.isSafeInteger(id)));
  }
  return ids.length === 0 ? undefined : ids;
}
