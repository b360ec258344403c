/** The flags that affect losses the most, in order: first flags of the optimizer, then flags of the model. */
export const decisiveFlags: readonly string[] = [
  ...['lr', 'num-layers', 'hidden-size', 'global-batch-size', 'train-iters', 'seq-length'],
  ...[
    'optimizer',
    'ffn-hidden-size',
    'num-attention-heads',
    'num-query-groups',
    'num-experts',
    'moe-router-topk',
  ],
  ...['weight-decay', 'adam-beta1', 'adam-beta2', 'lr-warmup-iters', 'lr-decay-style', 'min-lr', 'clip-grad'],
  ...['hidden-dropout', 'attention-dropout', 'position-embedding-type', 'normalization', 'swiglu'],
  ...['bf16', 'fp16', 'load-hf', 'finetune', 'lora-rank', 'data-path'],
];

export interface Difference {
  /** The name of a flag or a condition. */
  readonly name: string;
  /** The value of each run as text. */
  readonly values: readonly string[];
}

/**
 * Returns differences between runs in the order of their presumed effect: first the flags that affect losses
 * the most, then other flags with numbers, then all other flags. Within each of these groups, differences
 * with more distinct values come first.
 */
export function mostDecisiveFirst<One extends Difference>(differences: readonly One[]): One[] {
  return differences.toSorted(
    (one, other) =>
      rankKind(one) - rankKind(other) ||
      numValues(other) - numValues(one) ||
      findRank(one) - findRank(other) ||
      one.name.localeCompare(other.name),
  );
}

function rankKind({ name, values }: Difference): number {
  if (decisiveFlags.includes(name)) return 0;
  // seeds come late, because they differ even between repetitions of the same run
  const isNumber = values.every((value) => value === '–' || Number.isFinite(Number(value)));
  return isNumber && !/seed/.test(name) ? 1 : 2;
}

const numValues = ({ values }: Difference): number => new Set(values).size;
const findRank = ({ name }: Difference): number => decisiveFlags.indexOf(name);
