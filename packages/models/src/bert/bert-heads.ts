import { gelu, linear, linearCrossEntropy, Parameter, type Tape, type Variable } from '@mtl/autograd';
import { sliceOfRank, vocabularyParallelCrossEntropy } from '@mtl/tensor-parallel';
import { norms } from '../blocks/block-kinds.js';
import type { Norm, NormSpecification } from '../blocks/norm.js';
import { paddedVocabularySize } from '../blocks/transformer-configuration.js';
import { withoutSequenceParallel } from '../blocks/without-sequence-parallel.js';
import { type BertHeadOptions, headLinear, type LinearParameters } from './head-linear.js';
import { Pooler } from './pooler.js';

/**
 * Predicts masked tokens: dense, GELU, layer norm, and a decoder tied to the token embedding
 * with a bias of its own (Devlin et al. 2018). Parameter names are Megatron-Core's.
 */
export class MaskedLanguageHead {
  readonly parameters: readonly Parameter[];
  /** [V], padding included, sharded as the embedding is. */
  readonly outputBias: Parameter;
  readonly #options: BertHeadOptions;
  readonly #dense: LinearParameters;
  readonly #norm: Norm;

  constructor(options: BertHeadOptions & { readonly norm: NormSpecification }) {
    const { model, norm: specification } = options;
    const tensorParallel = withoutSequenceParallel(options.tensorParallel);
    this.#options = { model, tensorParallel };
    const { hiddenSize } = model;
    const vocabulary = paddedVocabularySize(model);
    this.#dense = headLinear('lm_head.dense', [hiddenSize, hiddenSize], this.#options);
    this.#norm = norms.build({ name: 'lm_head.layer_norm', hiddenSize, specification, tensorParallel });
    this.outputBias = new Parameter({
      name: 'output_layer.bias',
      globalShape: [vocabulary],
      slices: [sliceOfRank(tensorParallel, { size: vocabulary, what: 'entries of the padded vocabulary' })],
      placement: { sharded: { tp: 0 } },
      initialization: { kind: 'zeros' },
    });
    this.parameters = [...[this.#dense.weight, this.#dense.bias, ...this.#norm.parameters], this.outputBias];
  }

  /** Hidden states of masked tokens [M, 1, H] to what the decoder reads, [M, 1, H]. */
  transform(tape: Tape, hidden: Variable): Variable {
    const { geluKind: kind } = this.#options.model;
    const input = gelu(tape, { input: linear(tape, { input: hidden, ...this.#dense }), kind });
    return this.#norm.forward(tape, input);
  }

  /** The losses [M] of masked tokens from their hidden states [M, 1, H]. */
  losses(
    tape: Tape,
    call: {
      readonly hidden: Variable;
      readonly wordEmbedding: Parameter;
      readonly labels: Variable;
      readonly weights: Variable;
    },
  ): Variable {
    const { model, tensorParallel } = this.#options;
    return vocabularyParallelCrossEntropy(tape, {
      tensorParallel,
      input: this.transform(tape, call.hidden),
      weight: call.wordEmbedding,
      bias: this.outputBias,
      vocabularySize: model.vocabularySize,
      labels: call.labels,
      weights: call.weights,
    });
  }
}

/**
 * Predicts whether two texts are in their order: the pooler, tanh of a dense layer over the first token,
 * and two logits (Lan et al. 2019; with other labels it is next-sentence prediction).
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

  /** [B, 1, 2] */
  logits(tape: Tape, hidden: Variable): Variable {
    return linear(tape, { input: this.#pooler.pool(tape, hidden), ...this.#output });
  }

  /** The losses [B] of samples. */
  losses(
    tape: Tape,
    call: { readonly hidden: Variable; readonly labels: Variable; readonly weights: Variable },
  ): Variable {
    const { labels, weights } = call;
    const input = this.#pooler.pool(tape, call.hidden);
    return linearCrossEntropy(tape, { input, ...this.#output, vocabularySize: 2, labels, weights });
  }
}
