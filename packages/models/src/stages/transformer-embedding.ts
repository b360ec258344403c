import type { Parameter, Tape, Variable } from '@mtl/autograd';
import type { LayerFactory } from '../blocks/layer-factory.js';
import type { LayerSharding } from '../blocks/layer-sharding.js';
import type { Norm, NormSpecification } from '../blocks/norms.js';
import type { TransformerConfiguration } from '../blocks/transformer-configuration.js';
import { norms } from './block-kinds.js';
import { vocabularyEmbedding } from './vocabulary.js';

interface TransformerEmbeddingOptions {
  readonly model: TransformerConfiguration;
  /** [padded vocabulary, H], with sharded rows. */
  readonly wordEmbedding: Parameter;
  /**
   * The learned tables whose rows are added to the token embeddings: for each parameter name (for example
   * `position_embeddings`), how many rows the table has. `forward` receives ids in the same order.
   */
  readonly tables: Readonly<Record<string, number>>;
  /** The norm that is applied to the sum of the embeddings. Undefined means no norm. */
  readonly norm: NormSpecification | undefined;
  readonly factory: LayerFactory;
}

/**
 * The embedding layer of a transformer. It adds the embeddings of tokens and of other ids, then applies an
 * optional norm.
 */
export class TransformerEmbedding {
  /** The parameters in the order in which `forward` uses them. */
  readonly parameters: readonly Parameter[];
  readonly #model: TransformerConfiguration;
  readonly #wordEmbedding: Parameter;
  readonly #tables: readonly Parameter[];
  readonly #norm: Norm | undefined;

  constructor({ model, wordEmbedding, tables, norm, factory }: TransformerEmbeddingOptions) {
    const { hiddenSize, initMethodStd: standardDeviation } = model;
    this.#model = model;
    this.#wordEmbedding = wordEmbedding;
    this.#tables = Object.entries(tables).map(([name, numRows]) =>
      factory.replicated({
        name: `embedding.${name}.weight`,
        globalShape: [numRows, hiddenSize],
        initialization: { kind: 'normal', standardDeviation },
      }),
    );
    this.#norm =
      norm &&
      norms.build({
        name: 'embedding.layernorm',
        hiddenSize,
        specification: norm,
        ...factory.asOption,
      });
    this.parameters = [wordEmbedding, ...this.#tables, ...(this.#norm?.parameters ?? [])];
  }

  /**
   * Computes [S, B, H]. Under sequence parallelism, S covers only this rank's shard.
   *
   * @param call.tokens int32 [S, B]: the tokens of all shards
   * @param call.ids for each table, int32 [S, B]: the ids in this rank's shard
   */
  forward(
    tape: Tape,
    call: {
      readonly tokens: Variable;
      readonly ids: readonly Variable[];
      readonly sharding: LayerSharding;
    },
  ): Variable {
    const { vocabularySize } = this.#model;
    const lookup = {
      tokens: { ids: call.tokens, table: this.#wordEmbedding, vocabularySize },
      others: this.#tables.map((table, index) => ({ ids: call.ids[index]!, table })),
    };
    const embedded = vocabularyEmbedding(tape, lookup, call.sharding);
    return this.#norm === undefined ? embedded : this.#norm.forward(tape, embedded);
  }
}
