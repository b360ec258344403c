import type { BlockSpecification } from '@mtl/models';
import type { Value } from '../graph/graph-builder.js';
import { type AttentionMask, applyAttention } from './attention.js';
import { applyFeedForward } from './feed-forward.js';
import type { ModelGraph } from './layer-scope.js';
import { applyNorm } from './norms.js';
import type { Positions } from './rotation.js';

/** A model's layers, with their inputs. */
export interface LayersCall {
  /** The prefix of the names of layers. */
  readonly stack: 'decoder' | 'encoder';
  readonly blocks: readonly BlockSpecification[];
  readonly positions: Positions;
  readonly mask: AttentionMask;
  /**
   * Adds the new positions' keys or values to the cache, and returns the keys or values of all positions (see
   * `applyAttention`).
   */
  keep(layer: number, kind: 'key' | 'value', heads: Value): Value;
}

/** Applies a model's layers to [N, H]. If norms precede the sublayers, also applies the final norm. */
export function applyLayers(model: ModelGraph, input: Value, call: LayersCall): Value {
  const { stack, blocks } = call;
  const hidden = blocks.reduce((value, _, layer) => applyLayer(model, value, { call, layer }), input);
  const last = blocks.at(-1);
  if (last === undefined || last.normPlacement === 'post') return hidden;
  const { norm: specification, hiddenSize: size } = last;
  return applyNorm(model, hidden, { name: `${stack}.final_layernorm`, size, specification });
}

function applyLayer(
  model: ModelGraph,
  input: Value,
  { call, layer }: { readonly call: LayersCall; readonly layer: number },
): Value {
  const { graph } = model;
  const { stack, blocks, positions, mask, keep } = call;
  const { hiddenSize, norm: specification, normPlacement, attention, feedForward } = blocks[layer]!;
  const prefix = `${stack}.layers.${layer}`;
  const normalized = (value: Value, name: string): Value =>
    applyNorm(model, value, { name: `${prefix}.${name}`, size: hiddenSize, specification });
  const sublayers = [
    {
      norm: { pre: 'input_layernorm', post: 'post_attention_layernorm' },
      apply: (value: Value) =>
        applyAttention(model, value, {
          name: `${prefix}.self_attention`,
          hiddenSize,
          specification: attention,
          positions,
          mask,
          keep: (kind, heads) => keep(layer, kind, heads),
        }),
    },
    {
      norm: { pre: 'pre_mlp_layernorm', post: 'post_mlp_layernorm' },
      apply: (value: Value) =>
        applyFeedForward(model, value, { name: `${prefix}.mlp`, hiddenSize, specification: feedForward }),
    },
  ];
  return sublayers.reduce((residual, { norm, apply }) => {
    if (normPlacement === 'post') return normalized(graph.op('Add', [residual, apply(residual)]), norm.post);
    return graph.op('Add', [residual, apply(normalized(residual, norm.pre))]);
  }, input);
}
