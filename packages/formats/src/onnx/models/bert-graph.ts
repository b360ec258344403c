import type { LogicalTensor } from '@mtl/checkpoint';
import {
  type BertModelConfiguration,
  BertStage,
  type BertTask,
  type BlockSpecification,
  numLearnedPositions,
} from '@mtl/models';
import type { AttentionMask } from '../blocks/attention.js';
import { applyLinear, type ModelGraph, takeFloats } from '../blocks/layer-scope.js';
import { applyNorm } from '../blocks/norms.js';
import { refuseModel } from '../blocks/refusals.js';
import { applyLayers } from '../blocks/transformer-layers.js';
import { int, text } from '../graph/attributes.js';
import { GraphBuilder, type Value } from '../graph/graph-builder.js';
import { ModelWeights } from '../storage/model-weights.js';
import type { Storage } from '../storage/storage.js';

// B is the number of sequences, S the number of tokens per sequence, V the vocabulary size, and H the hidden
// size

/** The dimensions of inputs and outputs. */
const batch = 'batch_size';
const length = 'sequence_length';

/** Matches the tensors of pretraining's second head, which no pipeline of transformers.js uses. */
const sentenceOrderNames = /^(binary_head|pooler)\./;

/** A BERT to build a graph of. */
interface BertToBuild {
  readonly model: BertModelConfiguration;
  readonly tensors: readonly LogicalTensor[];
  /**
   * The task for which the model was fine-tuned. Default: none, so the model has the heads of pretraining.
   */
  readonly task?: BertTask | undefined;
  readonly storage: Storage;
}

/**
 * Returns the graph of a BERT, whose inputs and outputs have the names that transformers.js expects. The
 * outputs are `logits` for tokens or classes, or `start_logits` and `end_logits` for answers. A pretrained
 * model also outputs its hidden states, for feature extraction.
 *
 * @throws CheckpointError MTL_ONNX_ARCHITECTURE; UsageError MTL_HUGGING_FACE_TENSOR
 */
export function buildBertGraph({ model, tensors, task, storage }: BertToBuild): GraphBuilder {
  const graph = new GraphBuilder();
  const weights = new ModelWeights(
    task === undefined ? tensors.filter(({ name }) => !sentenceOrderNames.test(name)) : tensors,
  );
  const scope: ModelGraph = { graph, weights, storage };
  const stage = new BertStage({ model, device: 'cpu', dtype: 'float32', seed: 0 });
  const blocks = stage.blocks.map(({ specification }) => specification);
  const tokens = graph.input('input_ids', 'INT64', [batch, length]);
  const mask = graph.input('attention_mask', 'INT64', [batch, length]);
  const tokenTypes = graph.input('token_type_ids', 'INT64', [batch, length]);
  const ids = listPositions(graph, tokens);
  const isReal = graph.op('Unsqueeze', [graph.cast(mask, 'BOOL'), graph.integers([1, 2, 3])]);
  const visible: AttentionMask = { visible: () => isReal };
  const hidden = applyLayers(scope, embed(scope, model, { tokens, tokenTypes, ids, blocks }), {
    stack: 'encoder',
    blocks,
    positions: { ids, numPositions: model.maxPositionEmbeddings },
    mask: visible,
    keep: (_layer, _kind, heads) => heads,
  });
  addHead(scope, model, { hidden, tokens, task, norm: blocks.at(-1)!.norm });
  weights.expectAllTaken();
  return graph;
}

type Norm = BlockSpecification['norm'];

/** Returns the positions of the tokens, INT64 [B, S]: 0, 1, and so on. */
function listPositions(graph: GraphBuilder, tokens: Value): Value {
  const end = graph.reshape(graph.size(tokens, 1), []);
  const row = graph.op('Range', [graph.integers([0], []), end, graph.integers([1], [])]);
  return graph.op('Expand', [row, graph.op('Shape', [tokens])]);
}

/** Computes the hidden states [N, H] before the first layer. */
function embed(
  scope: ModelGraph,
  model: BertModelConfiguration,
  options: {
    readonly tokens: Value;
    readonly tokenTypes: Value;
    readonly ids: Value;
    readonly blocks: readonly BlockSpecification[];
  },
): Value {
  const { graph, weights, storage } = scope;
  const { hiddenSize, vocabularySize, tokenTypeVocabularySize } = model;
  const words = weights.take('embedding.word_embeddings.weight', [vocabularySize, hiddenSize]);
  const flat = (value: Value): Value => graph.reshape(value, [-1]);
  const look = (name: string, numRows: number, rows: Value): Value => {
    const shape = [numRows, hiddenSize];
    const table = takeFloats(scope, { name: `embedding.${name}.weight`, shape, type: storage.activations });
    return graph.op('Gather', [table, flat(rows)]);
  };
  const numPositions = numLearnedPositions(model);
  const tables = [
    ...(numPositions === 0 ? [] : [look('position_embeddings', numPositions, options.ids)]),
    look('tokentype_embeddings', tokenTypeVocabularySize, options.tokenTypes),
  ];
  const sum = tables.reduce(
    (value, table) => graph.op('Add', [value, table]),
    storage.lookUp(graph, flat(options.tokens), words),
  );
  const { norm: specification, normPlacement } = options.blocks[0]!;
  if (normPlacement === 'pre') return sum;
  return applyNorm(scope, sum, { name: 'embedding.layernorm', size: hiddenSize, specification });
}

/** The values that a head reads. */
interface HeadInput {
  /** [N, H] */
  readonly hidden: Value;
  readonly tokens: Value;
  readonly task: BertTask | undefined;
  readonly norm: Norm;
}

/** Adds the outputs of a model's head. */
function addHead(scope: ModelGraph, model: BertModelConfiguration, input: HeadInput): void {
  const { task } = input;
  if (task === undefined) addMaskedHead(scope, model, input);
  else if (task.kind === 'classification') addClassHead(scope, model, { ...input, ...task });
  else if (task.kind === 'span') addSpanHead(scope, model, input);
  else {
    throw refuseModel(
      'transformers.js has no pipeline for multiple choice',
      'a BERT of pretraining, classification or question answering',
      'use the directory of Hugging Face with the transformers library of Python',
    );
  }
}

function addMaskedHead(
  scope: ModelGraph,
  model: BertModelConfiguration,
  { hidden, tokens, norm: specification }: HeadInput,
): void {
  const { graph, weights, storage } = scope;
  const { hiddenSize, vocabularySize, geluKind } = model;
  const sizes = [graph.size(tokens, 0), graph.size(tokens, 1)];
  const dense = applyLinear(scope, hidden, {
    name: 'lm_head.dense',
    inputs: hiddenSize,
    outputs: hiddenSize,
    bias: true,
  });
  const activated = graph.op('Gelu', [dense], {
    attributes: { approximate: text(geluKind === 'tanh' ? 'tanh' : 'none') },
  });
  const rows = applyNorm(scope, activated, { name: 'lm_head.layer_norm', size: hiddenSize, specification });
  const logits = storage.logits(graph, rows, {
    weight: weights.take('embedding.word_embeddings.weight', [vocabularySize, hiddenSize]),
    bias: weights.take('output_layer.bias', [vocabularySize]),
  });
  for (const [name, value, width] of [
    ['logits', logits, vocabularySize],
    ['last_hidden_state', hidden, hiddenSize],
  ] as const) {
    graph.output(name, graph.reshape(asFloat(scope, value), [...sizes, width]), {
      type: 'FLOAT',
      shape: [batch, length, width],
    });
  }
}

const asFloat = ({ graph, storage }: ModelGraph, value: Value): Value =>
  storage.activations === 'FLOAT' ? value : graph.cast(value, 'FLOAT');

function addClassHead(
  scope: ModelGraph,
  { hiddenSize }: BertModelConfiguration,
  { hidden, tokens, numClasses }: HeadInput & { readonly numClasses: number },
): void {
  const { graph } = scope;
  const states = graph.reshape(hidden, [graph.size(tokens, 0), graph.size(tokens, 1), hiddenSize]);
  const first = graph.op('Gather', [states, graph.integers([0], [])], { attributes: { axis: int(1) } });
  const dense = { name: 'pooler.dense', inputs: hiddenSize, outputs: hiddenSize, bias: true };
  const pooled = graph.op('Tanh', [applyLinear(scope, first, dense)]);
  const head = { name: 'classification_head', inputs: hiddenSize, outputs: numClasses, bias: true };
  graph.output('logits', asFloat(scope, applyLinear(scope, pooled, head)), {
    type: 'FLOAT',
    shape: [batch, numClasses],
  });
}

function addSpanHead(scope: ModelGraph, { hiddenSize }: BertModelConfiguration, input: HeadInput): void {
  const { graph } = scope;
  const { hidden, tokens } = input;
  const pairs = applyLinear(scope, hidden, { name: 'span_head', inputs: hiddenSize, outputs: 2, bias: true });
  const parts = graph.split(asFloat(scope, pairs), 1, [1, 1]);
  for (const [index, name] of ['start_logits', 'end_logits'].entries()) {
    const logits = graph.reshape(parts[index]!, [graph.size(tokens, 0), graph.size(tokens, 1)]);
    graph.output(name, logits, { type: 'FLOAT', shape: [batch, length] });
  }
}
