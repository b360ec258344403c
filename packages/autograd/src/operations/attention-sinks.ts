import { attentionSinkBackward, attentionSinkForward, scale, Tensor } from '@mtl/kernels';
import { type Parameter, trainedParameters } from '../parameter.js';

/**
 * Attention sinks. Each head has an additional key for every query, with a learned or constant score and the
 * value 0 (see `attentionSinkForward` of @mtl/kernels).
 */
export interface AttentionSinks {
  /** The scores, [A]. If undefined, every head's score is 0 and is not trained. */
  readonly weight?: Parameter | undefined;
}

/**
 * The results of attention over all keys. `output` is [S, B, A, E] and `logSumExp` is [B, A, S]; for packed
 * samples, they are [T, A, E] and [A, T].
 */
interface Results {
  readonly output: Tensor;
  readonly logSumExp: Tensor;
}

/** The heads from `start` up to, but not including, `end`. */
interface HeadSlice {
  readonly start: number;
  readonly end: number;
}

/**
 * The sinks of one attention call. Forward adds the sinks to the results of attention. Backward computes the
 * sinks' gradient together with the input gradients; the weight-gradient half of backward then adds it to the
 * parameter's main gradient.
 */
export class SinksOfCall {
  readonly parameters: readonly Parameter[];
  readonly #weight: Parameter | undefined;
  readonly #heads: HeadSlice | undefined;
  #gradient: Tensor | undefined;

  /** @param heads the heads of the call. Default: all heads of the parameter */
  constructor({ weight }: AttentionSinks, heads?: HeadSlice) {
    this.#weight = weight;
    this.#heads = heads;
    this.parameters = weight === undefined ? [] : trainedParameters(weight);
  }

  /** Adds the sinks to the results of attention over all keys, in place. */
  addTo({ output, logSumExp }: Results): void {
    using sinks = this.#weight && this.#own(this.#weight.data);
    attentionSinkForward({ output, logSumExp, sinks });
  }

  /** Allocates the gradient, which lives until `addGradient`. Must be called outside of `tidy`. */
  startGradient(): void {
    if (this.parameters.length === 0) return;
    const { dtype, device } = this.#weight!.mainGradient;
    const { start, end } = this.#heads ?? { start: 0, end: this.#weight!.data.dim(0) };
    this.#gradient = Tensor.zeros({ shape: [end - start], dtype, device });
  }

  /** Adds the contribution of the given rows to the gradient that `startGradient` allocated. */
  differentiate({ rowSums, logSumExp }: { readonly rowSums: Tensor; readonly logSumExp: Tensor }): void {
    if (this.#gradient === undefined) return;
    using sinks = this.#own(this.#weight!.data);
    attentionSinkBackward({ sinksGradient: this.#gradient, rowSums, logSumExp, sinks });
  }

  /** Adds this call's gradient to the parameter's main gradient. */
  addGradient(): void {
    if (this.#gradient === undefined) return;
    using output = this.#own(this.#weight!.mainGradient);
    scale({ output, input: this.#gradient, factor: 1, accumulate: true });
    this.release();
  }

  release(): void {
    this.#gradient?.dispose();
    this.#gradient = undefined;
  }

  #own(tensor: Tensor): Tensor {
    const { start, end } = this.#heads ?? { start: 0, end: tensor.dim(0) };
    return tensor.rows(start, end);
  }
}
