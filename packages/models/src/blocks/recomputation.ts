import { recompute, type Tape, type Variable } from '@mtl/autograd';

/**
 * Parts of layers that `selective` may recompute, by Megatron-LM's names: all of a mixture of experts (its
 * router's choice is kept), the activations of experts, the shared experts, attention inside its heads.
 * Attention never keeps its scores, and activations of experts are always computed again.
 */
export const recomputableModules = ['core_attn', 'moe', 'moe_act', 'shared_experts'] as const;

export type RecomputableModule = (typeof recomputableModules)[number];

/**
 * The activations that are recomputed. `full`: layers keep only their input, either in `uniform` groups of
 * `numLayers` layers, or by `block`: each of the first `numLayers` layers, while the others keep their
 * activations (Megatron-LM's two methods).
 */
export type Recomputation =
  | { readonly granularity: 'none' }
  | { readonly granularity: 'selective'; readonly modules?: readonly RecomputableModule[] | undefined }
  | { readonly granularity: 'full'; readonly method: 'uniform' | 'block'; readonly numLayers: number };

type Layer = (tape: Tape, input: Variable) => Variable;

/** Applies layers one after the other under a recomputation. Every intermediate result is released. */
export function applyLayers(
  tape: Tape,
  input: Variable,
  layers: readonly Layer[],
  recomputation: Recomputation,
): Variable {
  return tape.scope(() => {
    if (recomputation.granularity !== 'full') return applyAll(tape, input, layers);
    const { method, numLayers } = recomputation;
    if (method === 'block') {
      const first = layers
        .slice(0, numLayers)
        .reduce((hidden, layer) => recompute(tape, hidden, layer), input);
      return applyAll(tape, first, layers.slice(numLayers));
    }
    let hidden = input;
    for (let start = 0; start < layers.length; start += numLayers) {
      const group = layers.slice(start, start + numLayers);
      hidden = recompute(tape, hidden, (inner, groupInput) => applyAll(inner, groupInput, group));
    }
    return hidden;
  });
}

function applyAll(tape: Tape, input: Variable, layers: readonly Layer[]): Variable {
  let hidden = input;
  for (const layer of layers) {
    const before = hidden;
    hidden = layer(tape, before);
    // the tape holds the values that backward needs
    if (before !== input) before.release();
  }
  return hidden;
}
