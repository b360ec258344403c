import {
  gelu,
  linear,
  linearCrossEntropy,
  type Parameter,
  type Tape,
  tanh,
  type Variable,
} from '@mtl/autograd';
import type { LayerFactory } from '../blocks/layer-factory.js';
import type { Norm, NormSpecification } from '../blocks/norms.js';
import { norms } from '../stages/block-kinds.js';
import { vocabularyBias, vocabularyLosses } from '../stages/vocabulary.js';
import type { BertModelConfiguration } from './bert-model.js';

export interface BertHeadOptions {
  readonly model: BertModelConfiguration;
  /** Makes the head's layers. The rows that heads read are gathered and replicated. */
  readonly factory: LayerFactory;
}

/** A dense layer of a head. */
export interface LinearParameters {
  readonly weight: Parameter;
  readonly bias: Parameter;
}

/**
 * Returns a weight [outputs, inputs] and a bias [outputs], replicated on every rank. If outputs equals
 * inputs, the layer is initialized like a hidden layer, otherwise like an output layer.
 */
export function headLinear(
  name: string,
  shape: readonly [outputs: number, inputs: number],
  options: BertHeadOptions,
): LinearParameters {
  const standardDeviation = options.model.initMethodStd;
  const factory = options.factory.onGatheredRows();
  return {
    weight: factory.replicated({
      name: `${name}.weight`,
      globalShape: shape,
      matrices: shape[0] === shape[1] ? [shape.map((size) => ({ start: 0, end: size }))] : [],
      initialization: { kind: 'normal', standardDeviation },
    }),
    bias: factory.replicated({
      name: `${name}.bias`,
      globalShape: [shape[0]],
      initialization: { kind: 'zeros' },
    }),
  };
}

/**
 * The pooler: a dense layer over each sequence's first token, followed by tanh. The result is one vector per
 * sequence (see Devlin et al. 2018).
 */
export class Pooler {
  readonly parameters: readonly Parameter[];
  readonly #dense: LinearParameters;

  constructor(options: BertHeadOptions) {
    const { hiddenSize } = options.model;
    this.#dense = headLinear('pooler.dense', [hiddenSize, hiddenSize], options);
    this.parameters = [this.#dense.weight, this.#dense.bias];
  }

  /**
   * Computes one vector per row. Input and result are [R, 1, H]. The input contains the hidden states of the
   * rows' first tokens.
   */
  pool(tape: Tape, hidden: Variable): Variable {
    return tape.scope(() => tanh(tape, linear(tape, { input: hidden, ...this.#dense })));
  }
}

/**
 * Predicts masked tokens: dense layer, GELU, layer norm, and decoder (see Devlin et al. 2018). The decoder
 * uses the weight of the token embedding and has its own bias. Parameters have the names that Megatron-Core
 * gives them.
 */
export class MaskedLanguageHead {
  readonly parameters: readonly Parameter[];
  /** [V]. V includes padded entries. Sharded like the embedding. */
  readonly outputBias: Parameter;
  readonly #options: BertHeadOptions;
  readonly #dense: LinearParameters;
  readonly #norm: Norm;

  constructor(options: BertHeadOptions & { readonly norm: NormSpecification }) {
    const { model, norm: specification } = options;
    const factory = options.factory.onGatheredRows();
    this.#options = { model, factory };
    const { hiddenSize } = model;
    const shared = { hiddenSize, specification, ...factory.asOption };
    this.#dense = headLinear('lm_head.dense', [hiddenSize, hiddenSize], this.#options);
    this.#norm = norms.build({ ...shared, name: 'lm_head.layer_norm' });
    this.outputBias = vocabularyBias({ model, factory, name: 'output_layer.bias' });
    this.parameters = [...[this.#dense.weight, this.#dense.bias, ...this.#norm.parameters], this.outputBias];
  }

  /** Transforms the masked tokens' hidden states [M, 1, H] to the decoder's input [M, 1, H]. */
  transform(tape: Tape, hidden: Variable): Variable {
    const { geluKind: kind } = this.#options.model;
    const input = gelu(tape, { input: linear(tape, { input: hidden, ...this.#dense }), kind });
    return this.#norm.forward(tape, input);
  }

  /** Computes the losses [M] of masked tokens from their hidden states [M, 1, H]. */
  computeLosses(
    tape: Tape,
    call: {
      readonly hidden: Variable;
      readonly wordEmbedding: Parameter;
      readonly labels: Variable;
      readonly weights: Variable;
    },
  ): Variable {
    const { model, factory } = this.#options;
    const operands = {
      input: this.transform(tape, call.hidden),
      weight: call.wordEmbedding,
      bias: this.outputBias,
      vocabularySize: model.vocabularySize,
      labels: call.labels,
      weights: call.weights,
    };
    return vocabularyLosses(tape, operands, factory.sharding);
  }
}

/**
 * Predicts if two texts are in their original order (see Lan et al. 2019). It consists of the pooler, which
 * applies a dense layer and tanh to the first token, and an output layer for two logits. With different
 * labels, the same head predicts the next sentence.
 */
export class SentenceOrderHead {
  readonly parameters: readonly Parameter[];
  readonly #pooler: Pooler;
  readonly #output: LinearParameters;

  constructor(options: BertHeadOptions) {
    const { hiddenSize } = options.model;
    this.#pooler = new Pooler(options);
    this.#output = headLinear('binary_head', [2, hiddenSize], options);
    this.parameters = [...this.#pooler.parameters, this.#output.weight, this.#output.bias];
  }

  /** Computes the samples' logits [B, 1, 2] from the hidden states of their first tokens, [B, 1, H]. */
  logits(tape: Tape, hidden: Variable): Variable {
    return linear(tape, { input: this.#pooler.pool(tape, hidden), ...this.#output });
  }

  /** Returns a loss for each sample, [B]. */
  computeLosses(
    tape: Tape,
    call: { readonly hidden: Variable; readonly labels: Variable; readonly weights: Variable },
  ): Variable {
    const { labels, weights } = call;
    const input = this.#pooler.pool(tape, call.hidden);
    return linearCrossEntropy(tape, { input, ...this.#output, vocabularySize: 2, labels, weights });
  }
}
