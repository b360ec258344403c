import type { Parameter } from '@mtl/autograd';

/** What an update rule needs to know of a parameter. */
export interface ParameterGroup {
  /** Whether weight decay applies. */
  readonly decays: boolean;
  /** A matrix multiplies activations or holds a row per token; vectors are biases and norms. */
  readonly kind: 'matrix' | 'vector';
  /** Outputs of the whole (unsharded) parameter: all dimensions of a matrix but the last. */
  readonly fanOut: number;
  /** Inputs of a matrix: its last dimension. 1 for a vector. */
  readonly fanIn: number;
}

export function parameterGroupOf({ decays, globalShape }: Parameter): ParameterGroup {
  // a bias may have several dimensions, which fold to one: it never decays (Megatron's rule)
  const kind = decays && globalShape.length > 1 ? 'matrix' : 'vector';
  const size = globalShape.reduce((product, each) => product * each, 1);
  const fanIn = kind === 'matrix' ? globalShape.at(-1)! : 1;
  return { decays, kind, fanIn, fanOut: size / fanIn };
}
