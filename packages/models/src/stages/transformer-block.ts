import type { Parameter, Tape, Variable } from '@mtl/autograd';
import type { HeadScores } from '../blocks/head-scores.js';
import type { LayerFactory } from '../blocks/layer-factory.js';
import { costOfWeights, type MatmulCost, sumOfCosts } from '../blocks/matmul-cost.js';
import type { DropoutSite, MicroBatchContext } from '../blocks/micro-batch-context.js';
import type { Norm } from '../blocks/norms.js';
import type { RowCoordinate } from '../blocks/row-coordinates.js';
import type { Sublayer, SublayerInput } from '../blocks/sublayer.js';
import type { ExpertLoad } from '../routing/expert-load.js';
import { attentions, feedForwards, norms } from './block-kinds.js';
import type { BlockSpecification } from './block-specification.js';

interface TransformerBlockOptions {
  /** Global index of the layer. */
  readonly layer: number;
  /** The prefix for layer names, as in Megatron-Core. The default is `decoder`. */
  readonly stack?: 'decoder' | 'encoder' | undefined;
  readonly specification: BlockSpecification;
  /** Makes the linear layers of its sublayers. */
  readonly factory: LayerFactory;
}

/** A sublayer together with its norm and its dropout before the residual sum. */
interface Residual {
  readonly norm: Norm;
  readonly sublayer: Sublayer;
  readonly dropout: DropoutSite;
}

/**
 * A transformer layer: two sublayers, each with norm, dropout and residual sum. `pre` computes `x +
 * attention(norm(x))`, then `x + feedForward(norm(x))`, as in GPT-2; for BERT this is Megatron's
 * rearrangement (see Shoeybi et al. 2019, figure 7b). `post` computes `norm(x + attention(x))`, then `norm(x
 * + feedForward(x))`, which is the original order (see figure 7a). Parameters have Megatron-Core's names.
 * Norms have different names after a sublayer than before it, so weights cannot be loaded into a model with a
 * different norm placement.
 */
export class TransformerBlock {
  readonly specification: BlockSpecification;
  /** The parameters in the order in which `forward` uses them. */
  readonly parameters: readonly Parameter[];
  /** Low-rank adapters, whose factors are among `parameters`. */
  readonly adapters: LayerFactory['adapters'];
  readonly matmuls: MatmulCost;
  /** The names of the losses that the sublayers compute. */
  readonly losses: readonly string[];
  /** The row coordinates that the sublayers read. */
  readonly reads: readonly RowCoordinate[];
  /** Counts the rows for each expert. The array has one entry per sublayer with experts. */
  readonly expertLoads: readonly ExpertLoad[];
  /** The highest score of each head. The array has one entry per attention. */
  readonly headScores: readonly HeadScores[];
  readonly #isPost: boolean;
  readonly #residuals: readonly Residual[];

  /**
   * @throws ConfigurationError MTL_BLOCK_KIND if a kind is not registered; MTL_TENSOR_PARALLEL_SIZE if the
   *   heads or the feed-forward features cannot be sharded evenly
   */
  constructor(options: TransformerBlockOptions) {
    const { layer, stack = 'decoder', specification, factory } = options;
    const { hiddenSize, norm, attention, feedForward, initialization } = specification;
    const probability = specification.hiddenDropout;
    const isPost = specification.normPlacement === 'post';
    const prefix = `${stack}.layers.${layer}`;
    const common = { layer, hiddenSize, initialization, ...factory.asOption };
    const newNorm = (name: string): Norm =>
      norms.build({ ...common, name: `${prefix}.${name}`, specification: norm });
    this.specification = specification;
    this.#isPost = isPost;
    const numEarlier = factory.adapters.length;
    this.#residuals = [
      {
        norm: newNorm(isPost ? 'post_attention_layernorm' : 'input_layernorm'),
        sublayer: attentions.build({ ...common, name: `${prefix}.self_attention`, specification: attention }),
        dropout: { site: `${prefix}.self_attention.hidden_dropout`, probability },
      },
      {
        norm: newNorm(isPost ? 'post_mlp_layernorm' : 'pre_mlp_layernorm'),
        sublayer: feedForwards.build({ ...common, name: `${prefix}.mlp`, specification: feedForward }),
        dropout: { site: `${prefix}.mlp.hidden_dropout`, probability },
      },
    ];
    this.parameters = this.#residuals
      .flatMap(({ norm: before, sublayer }) => (isPost ? [sublayer, before] : [before, sublayer]))
      .flatMap(({ parameters }) => parameters);
    this.adapters = factory.adapters.slice(numEarlier);
    this.matmuls = sumOfCosts(
      this.#residuals.map(({ sublayer: { matmuls, parameters } }) => matmuls ?? costOfWeights(parameters)),
    );
    this.losses = this.#residuals.flatMap(({ sublayer }) => sublayer.losses ?? []);
    this.reads = this.#residuals.flatMap(({ sublayer }) => sublayer.reads ?? []);
    this.expertLoads = this.#residuals.flatMap(({ sublayer }) => sublayer.load ?? []);
    this.headScores = this.#residuals.flatMap(({ sublayer }) => sublayer.scores ?? []);
  }

  /**
   * Computes the layer's output. Input and output are [S, B, H]. Under sequence parallelism, S covers only
   * this rank's shard of the sequence.
   */
  forward(tape: Tape, input: Variable, context: MicroBatchContext): Variable {
    return tape.scope(() =>
      this.#residuals.reduce((hidden, residual) => this.#add(tape, hidden, { residual, context }), input),
    );
  }

  /** Releases the resources that sublayers keep between forward and backward passes. */
  dispose(): void {
    for (const { sublayer } of this.#residuals) sublayer.dispose?.();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** Applies a sublayer, including dropout and residual sum. Its norm is applied before or after. */
  #add(
    tape: Tape,
    residual: Variable,
    {
      residual: { norm, sublayer, dropout: site },
      context,
    }: { residual: Residual; context: MicroBatchContext },
  ): Variable {
    const dropout = context.hiddenDropout(site);
    const sum = (input: Pick<SublayerInput, 'input' | 'used'>): Variable =>
      sublayer.forward(tape, { ...input, residual, dropout }, context);
    if (this.#isPost) return norm.forward(tape, sum({ input: residual, used: () => {} }));
    const normalized = norm.forward(tape, residual);
    return sum({ input: normalized, used: () => normalized.release() });
  }
}
