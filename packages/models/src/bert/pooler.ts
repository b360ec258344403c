import { linear, type Parameter, type Tape, tanh, type Variable } from '@mtl/autograd';
import { type BertHeadOptions, headLinear, type LinearParameters } from './head-linear.js';

/** tanh of a dense layer over the first token: a vector for a whole sequence (Devlin et al. 2018). */
export class Pooler {
  readonly parameters: readonly Parameter[];
  readonly #dense: LinearParameters;

  constructor(options: BertHeadOptions) {
    const { hiddenSize } = options.model;
    this.#dense = headLinear('pooler.dense', [hiddenSize, hiddenSize], options);
    this.parameters = [this.#dense.weight, this.#dense.bias];
  }

  /** Hidden states of first tokens [R, 1, H] to a vector a row, [R, 1, H]. */
  pool(tape: Tape, hidden: Variable): Variable {
    return tape.scope(() => tanh(tape, linear(tape, { input: hidden, ...this.#dense })));
  }
}
