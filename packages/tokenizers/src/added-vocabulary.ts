/** A token, without its id. Before a text is split into words, it is searched for added tokens. */
export interface AddedToken {
  readonly content: string;
  readonly special: boolean;
  /** True if the token is searched for in the normalized text. */
  readonly normalized: boolean;
  readonly single_word: boolean;
  readonly lstrip: boolean;
  readonly rstrip: boolean;
}

/** The added tokens, with the ids that the tokenizers library assigns. The ids in the files are ignored. */
export class AddedVocabulary {
  readonly #modelIds: ReadonlyMap<string, number>;
  readonly #modelTokens: readonly string[];
  readonly #tokens = new Map<string, AddedToken & { readonly id: number }>();
  /** The id of the next new token. */
  #next: number;

  /**
   * @param modelIds the ids of the model's tokens
   * @param of.modelTokens the model's tokens, indexed by id
   * @param of.numEntries the number of entries in the model's vocabulary; in Unigram, several entries may
   * have the
   *   same token
   */
  constructor(
    modelIds: ReadonlyMap<string, number>,
    of: { readonly modelTokens: readonly string[]; readonly numEntries: number },
  ) {
    this.#modelIds = modelIds;
    this.#modelTokens = of.modelTokens;
    this.#next = of.numEntries;
  }

  /**
   * Adds tokens in order. An existing token gets the properties of the new token, but stays special if it was
   * special.
   */
  add(tokens: readonly AddedToken[]): void {
    for (const token of tokens) {
      const known = this.#tokens.get(token.content);
      const id = known?.id ?? this.#modelIds.get(token.content) ?? this.#next;
      const special = token.special || known?.special === true;
      this.#tokens.set(token.content, { ...token, special, id });
      this.#next = Math.max(this.#next, id + 1);
    }
  }

  has(content: string): boolean {
    return this.#tokens.has(content);
  }

  /** Returns the model's token with an id. */
  ofModel(id: number): string | undefined {
    return this.#modelTokens[id];
  }

  /** Returns the id of an added token, or else of a token of the model. */
  findId(content: string): number | undefined {
    return this.#tokens.get(content)?.id ?? this.#modelIds.get(content);
  }

  /** Returns the added tokens in the order of their ids. */
  inOrder(): readonly (AddedToken & { readonly id: number })[] {
    return [...this.#tokens.values()].sort((a, b) => a.id - b.id);
  }
}

/** Returns the tokens in an array, indexed by id. */
export function tokensById(ids: ReadonlyMap<string, number>): string[] {
  const tokens: string[] = [];
  for (const [token, id] of ids) tokens[id] = token;
  return tokens;
}
