import type { LogicalTensor } from '@mtl/checkpoint';
import { type GptModelConfiguration, GptStage, numLearnedPositions } from '@mtl/models';
import type { AttentionMask } from '../blocks/attention.js';
import { type ModelGraph, takeFloats } from '../blocks/layer-scope.js';
import { applyLayers } from '../blocks/transformer-layers.js';
import { GraphBuilder, type Value } from '../graph/graph-builder.js';
import { ModelWeights } from '../storage/model-weights.js';
import type { Storage } from '../storage/storage.js';

// B is the number of sequences, S the number of new tokens, P the number of tokens before them, T = P + S; V
// is the vocabulary size, and H the hidden size

/** The largest index for `Slice`, which means the end. */
const toEnd = 2 ** 31 - 1;

const dimensions = {
  batch: 'batch_size',
  length: 'sequence_length',
  past: 'past_sequence_length',
  total: 'total_sequence_length',
};

/**
 * Returns the graph of a GPT with its cache. Inputs and outputs have the names that transformers.js expects.
 * The inputs are tokens, mask and positions, the keys and values of earlier positions, and the number of
 * positions for which logits are requested (0 means all).
 *
 * @throws CheckpointError MTL_ONNX_ARCHITECTURE; UsageError MTL_HUGGING_FACE_TENSOR
 */
export function buildGptGraph(options: {
  readonly model: GptModelConfiguration;
  readonly tensors: readonly LogicalTensor[];
  readonly storage: Storage;
}): GraphBuilder {
  const { model, tensors, storage } = options;
  const { activations } = storage;
  const { batch, length, past, total } = dimensions;
  const graph = new GraphBuilder();
  const weights = new ModelWeights(tensors);
  const scope: ModelGraph = { graph, weights, storage };
  const { blocks: stageBlocks } = new GptStage({ model, device: 'cpu', dtype: 'float32', seed: 0 });
  const blocks = stageBlocks.map(({ specification }) => specification);

  const tokens = graph.input('input_ids', 'INT64', [batch, length]);
  const mask = graph.input('attention_mask', 'INT64', [batch, total]);
  const positionIds = graph.input('position_ids', 'INT64', [batch, length]);
  const numLogits = graph.input('num_logits_to_keep', 'INT64', []);
  const cacheShape = (layer: number, positions: string) => {
    const { numHeads, numGroups = numHeads, headSize } = blocks[layer]!.attention;
    return [batch, numGroups, positions, headSize];
  };
  const pastNames = blocks.map((_, layer) => {
    const add = (kind: string): Value =>
      graph.input(`past_key_values.${layer}.${kind}`, activations, cacheShape(layer, past));
    return { key: add('key'), value: add('value') };
  });

  const hidden = applyLayers(scope, embed(scope, model, { tokens, positionIds }), {
    stack: 'decoder',
    blocks,
    positions: { ids: positionIds, numPositions: model.maxPositionEmbeddings },
    mask: causalMask(graph, { tokens, mask }),
    keep: (layer, kind, heads) => {
      const all = graph.concat([pastNames[layer]![kind], heads], 2);
      graph.output(`present.${layer}.${kind}`, all, { type: activations, shape: cacheShape(layer, total) });
      return all;
    },
  });
  graph.output('logits', computeLogits(scope, model, { hidden, tokens, numLogits }), {
    type: 'FLOAT',
    shape: [batch, 'num_logits', model.vocabularySize],
  });
  weights.expectAllTaken();
  return graph;
}

/** Computes the hidden states [N, H] before the first layer. */
function embed(
  scope: ModelGraph,
  model: GptModelConfiguration,
  { tokens, positionIds }: { readonly tokens: Value; readonly positionIds: Value },
): Value {
  const { graph, storage } = scope;
  const { hiddenSize } = model;
  const embedded = storage.lookUp(graph, graph.reshape(tokens, [-1]), wordTable(scope, model));
  const numPositions = numLearnedPositions(model);
  if (numPositions === 0) return embedded;
  const name = 'embedding.position_embeddings.weight';
  const table = takeFloats(scope, { name, shape: [numPositions, hiddenSize], type: storage.activations });
  return graph.op('Add', [embedded, graph.op('Gather', [table, graph.reshape(positionIds, [-1])])]);
}

/** Returns the embedding without the vocabulary's padding. */
const wordTable = ({ weights }: ModelGraph, { vocabularySize, hiddenSize }: GptModelConfiguration) =>
  weights.take('embedding.word_embeddings.weight', [vocabularySize, hiddenSize]);

/**
 * Returns the causal mask: a query attends to its own token and to the tokens before it, but not to padding.
 */
function causalMask(
  graph: GraphBuilder,
  { tokens, mask }: { readonly tokens: Value; readonly mask: Value },
): AttentionMask {
  const scalar = (value: Value): Value => graph.reshape(value, []);
  const range = (start: Value, end: Value): Value => graph.op('Range', [start, end, graph.integers([1], [])]);
  const make = (windowSize: number | undefined): Value => {
    const total = graph.once('total', () => scalar(graph.size(mask, 1)));
    const keys = graph.once('keys', () => range(graph.integers([0], []), total));
    const queries = graph.once('queries', () => {
      const first = graph.op('Sub', [total, scalar(graph.size(tokens, 1))]);
      return graph.op('Unsqueeze', [range(first, total), graph.integers([1])]);
    });
    const isReal = graph.once('real', () =>
      graph.op('Unsqueeze', [graph.cast(mask, 'BOOL'), graph.integers([1, 2, 3])]),
    );
    const before = graph.op('LessOrEqual', [keys, queries]);
    const seen = graph.op('And', [before, isReal]);
    if (windowSize === undefined) return seen;
    const first = graph.op('Sub', [queries, graph.integers([windowSize])]);
    return graph.op('And', [seen, graph.op('GreaterOrEqual', [keys, first])]);
  };
  return { visible: (windowSize) => graph.once(`visible ${windowSize}`, () => make(windowSize)) };
}

/** Computes the logits [B, n, V] of the last n tokens. */
function computeLogits(
  scope: ModelGraph,
  model: GptModelConfiguration,
  values: { readonly hidden: Value; readonly tokens: Value; readonly numLogits: Value },
): Value {
  const { graph, weights, storage } = scope;
  const { hiddenSize, vocabularySize, tieEmbeddings, finalLogitSoftcapping: cap } = model;
  const numSequences = graph.size(values.tokens, 0);
  const states = graph.reshape(values.hidden, [numSequences, graph.size(values.tokens, 1), hiddenSize]);
  // from the end: 0 is the first token
  const start = graph.reshape(graph.op('Neg', [values.numLogits]), [1]);
  const wanted = graph.op('Slice', [states, start, graph.integers([toEnd]), graph.integers([1])]);
  const weight = tieEmbeddings
    ? wordTable(scope, model)
    : weights.take('output_layer.weight', [vocabularySize, hiddenSize]);
  const rows = storage.logits(graph, graph.reshape(wanted, [-1, hiddenSize]), { weight });
  const logits = storage.activations === 'FLOAT' ? rows : graph.cast(rows, 'FLOAT');
  const shaped = graph.reshape(logits, [numSequences, -1, vocabularySize]);
  if (cap === undefined) return shaped;
  const number = graph.number(cap, 'FLOAT');
  return graph.op('Mul', [graph.op('Tanh', [graph.op('Div', [shaped, number])]), number]);
}
