import {
  type AttentionForwardOptions,
  attentionForward,
  splitProjection,
  type Tensor,
  tidy,
} from '../../src/index.js';
import { type DifferentiateAttentionOptions, differentiateAttention } from './differentiate-attention.js';

type Operands = 'query' | 'key' | 'value';
type Gradients = 'queryGradient' | 'keyGradient' | 'valueGradient';

export interface ProjectedForwardOptions extends Omit<AttentionForwardOptions, Operands> {
  /** `[S, B, G, R + 2, D]`, packed `[T, G, R + 2, D]` */
  readonly qkv: Tensor;
}

export interface ProjectedBackwardOptions extends Omit<DifferentiateAttentionOptions, Operands | Gradients> {
  readonly qkv: Tensor;
  readonly qkvGradient: Tensor;
}

/** Calls `attentionForward` on a packed projection. */
export function projectedForward({ qkv, ...call }: ProjectedForwardOptions): void {
  tidy(() => attentionForward({ ...call, ...splitProjection(qkv) }));
}

/** Calls `differentiateAttention` on a packed projection. */
export function projectedBackward({ qkv, qkvGradient, ...call }: ProjectedBackwardOptions): void {
  tidy(() => {
    const { query, key, value } = splitProjection(qkvGradient);
    const gradients = { queryGradient: query, keyGradient: key, valueGradient: value };
    differentiateAttention({ ...call, ...splitProjection(qkv), ...gradients });
  });
}
