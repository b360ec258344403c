import { ConfigurationError, UsageError } from '@mtl/errors';

/**
 * Parts of a model by the `kind` in their specifications: the kinds of this package, and those that a caller
 * registers.
 */
export class KindRegistry<Options extends { readonly specification: { readonly kind: string } }, Part> {
  readonly #what: string;
  readonly #factories: Map<string, (options: Options) => Part>;

  /** @param what names the parts in errors: `norm` */
  constructor(what: string, builtIn: Readonly<Record<string, (options: Options) => Part>>) {
    this.#what = what;
    this.#factories = new Map(Object.entries(builtIn));
  }

  /**
   * Adds a kind. The factory gets the specification that a model was built with: fields that a kind adds are
   * declared in the type of the factory's options.
   *
   * @throws UsageError MTL_BLOCK_KIND when the kind is registered already
   */
  register<Own extends Options>(kind: string, factory: (options: Own) => Part): void {
    if (this.#factories.has(kind)) {
      throw new UsageError('MTL_BLOCK_KIND', `the ${this.#what} '${kind}' is registered already`, {
        expected: 'a kind that is not registered yet',
        remedy: 'choose another name',
        details: { kind },
      });
    }
    // specifications of this kind are the caller's, and have the fields that its factory reads
    this.#factories.set(kind, factory as unknown as (options: Options) => Part);
  }

  /**
   * Builds a part of the specification's kind.
   *
   * @throws ConfigurationError MTL_BLOCK_KIND when the kind is not registered
   */
  build(options: Options): Part {
    const { kind } = options.specification;
    const factory = this.#factories.get(kind);
    if (factory !== undefined) return factory(options);
    throw new ConfigurationError('MTL_BLOCK_KIND', `unknown ${this.#what} '${kind}'`, {
      expected: [...this.#factories.keys()].join(', '),
      remedy: 'register the kind before the model is built',
      details: { kind },
    });
  }
}
