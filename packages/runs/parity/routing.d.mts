/** The rules by which a router chooses, and its choice for a token. */
export interface TokenChoice {
  readonly experts: ArrayLike<number>;
  readonly logits: ArrayLike<number>;
  readonly selection: {
    readonly topK: number;
    readonly scoreFunction: string;
    readonly numGroups: number;
    readonly groupTopK: number;
    readonly bias?: ArrayLike<number> | undefined;
  };
}

/** Returns how near the decision between the experts of a token and others was. */
export function gapOf(choice: TokenChoice, others: ArrayLike<number>): number;

/** A step in which tokens go to other experts. */
export interface Flip {
  readonly iteration: number;
  readonly gap: number;
  readonly isNearTie: boolean;
}

/**
 * Returns the steps in which tokens of a run go to other experts than in the reference, by
 * `iteration/router/sample/position`.
 */
export function flipsOf(
  run: ReadonlyMap<string, TokenChoice>,
  reference: ReadonlyMap<string, TokenChoice>,
): readonly Flip[];
