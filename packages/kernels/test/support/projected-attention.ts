import {
  type AttentionBackwardOptions,
  type AttentionForwardOptions,
  attentionBackward,
  attentionForward,
  splitProjection,
  type Tensor,
  tidy,
} from '../../src/index.js';

type Operands = 'query' | 'key' | 'value';
type Gradients = 'queryGradient' | 'keyGradient' | 'valueGradient';

export interface ProjectedForwardOptions extends Omit<AttentionForwardOptions, Operands> {
  /** `[S, B, G, R + 2, D]`, packed `[T, G, R + 2, D]` */
  readonly qkv: Tensor;
}

export interface ProjectedBackwardOptions extends Omit<AttentionBackwardOptions, Operands | Gradients> {
  readonly qkv: Tensor;
  readonly qkvGradient: Tensor;
}

/** `attentionForward` of a packed projection. */
export function projectedForward({ qkv, ...call }: ProjectedForwardOptions): void {
  tidy(() => attentionForward({ ...call, ...splitProjection(qkv) }));
}

/** `attentionBackward` of a packed projection. */
export function projectedBackward({ qkv, qkvGradient, ...call }: ProjectedBackwardOptions): void {
  tidy(() => {
    const { query, key, value } = splitProjection(qkvGradient);
    const gradients = { queryGradient: query, keyGradient: key, valueGradient: value };
    attentionBackward({ ...call, ...splitProjection(qkv), ...gradients });
  });
}
