/** How a router chooses, and what one has chosen for a token. */
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

/** How near the decision between the experts of a token and others was. */
export function gapOf(choice: TokenChoice, others: ArrayLike<number>): number;
