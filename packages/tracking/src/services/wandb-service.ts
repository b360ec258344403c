import type { RunOutcome } from '@mtl/trainer';
import type { MetricsRow } from './metrics-rows.js';
import { requestJson, ServiceError } from './request-json.js';
import type { TrackedRun, TrackingService } from './tracking-settings.js';
import type { WandbState } from './tracking-state.js';

/** Creates the run, or continues the run with this name in the project. */
const upsertBucket = `mutation UpsertBucket(
  $name: String, $project: String, $entity: String, $displayName: String, $config: JSONString, $host: String
) {
  upsertBucket(input: {
    name: $name, modelName: $project, entityName: $entity, displayName: $displayName, config: $config, host: $host
  }) {
    bucket { name displayName project { name entity { name } } }
    inserted
  }
}`;

interface UpsertedBucket {
  readonly data?: {
    readonly upsertBucket?: {
      readonly bucket?: { readonly project?: { readonly entity?: { readonly name?: string } } };
    };
  };
  readonly errors?: ReadonlyArray<{ readonly message?: string }>;
}

/** The body of a request to the file stream of a run. */
interface StreamedFiles {
  /** Lines to write, by file name. The first line is written at line number `offset`. */
  readonly files?: Readonly<Record<string, { readonly offset: number; readonly content: readonly string[] }>>;
  readonly complete?: boolean;
  readonly exitcode?: number;
}

/**
 * A run at Weights & Biases. The run itself uses the GraphQL interface. Metrics use the file stream. Row n is
 * written at line n of wandb-history.jsonl, so that a row that is sent twice is stored only once.
 */
export class WandbService implements TrackingService {
  readonly title = 'wandb';
  readonly mostRows = 1000;
  readonly #state: WandbState;
  readonly #key: string;
  readonly #signal: AbortSignal | undefined;
  #startedAt = 0;

  constructor(
    state: WandbState,
    options: { readonly key: string; readonly signal?: AbortSignal | undefined },
  ) {
    this.#state = state;
    this.#key = options.key;
    this.#signal = options.signal;
  }

  get page(): string | undefined {
    const { baseUrl, entity, project, id } = this.#state;
    if (entity === undefined) return undefined;
    return [baseUrl.replace('://api.', '://'), ...[entity, project, 'runs', id].map(encodeURIComponent)].join(
      '/',
    );
  }

  async open({ flags, host, startedAt }: TrackedRun): Promise<void> {
    this.#startedAt = startedAt;
    const { id, project, entity, name, baseUrl } = this.#state;
    const given = Object.entries(flags).filter(([, value]) => value !== undefined);
    const config = Object.fromEntries(given.map(([flag, value]) => [flag, { value }]));
    const variables = {
      name: id,
      project,
      entity: entity ?? null,
      displayName: name,
      host,
      config: JSON.stringify(config),
    };
    const answer = (await this.#request(`${baseUrl}/graphql`, {
      query: upsertBucket,
      variables,
      operationName: 'UpsertBucket',
    })) as UpsertedBucket;
    const found = answer.data?.upsertBucket?.bucket?.project?.entity?.name;
    if (typeof found !== 'string') {
      const why = answer.errors?.[0]?.message ?? 'the answer names no run';
      throw new ServiceError(`the run was not created: ${why}`, { status: 400 });
    }
    this.#state.entity = found;
  }

  async send(rows: readonly MetricsRow[], first: number): Promise<void> {
    const lines = rows.map((row) => this.#line(row));
    await this.#post({
      files: {
        'wandb-history.jsonl': { offset: first, content: lines },
        'wandb-summary.json': { offset: 0, content: lines.slice(-1) },
      },
    });
  }

  async keepAlive(): Promise<void> {
    await this.#post({});
  }

  async end(outcome: RunOutcome): Promise<void> {
    await this.#post({ complete: true, exitcode: outcome === 'failed' ? 1 : 0 });
  }

  #line({ iteration, time, values }: MetricsRow): string {
    return JSON.stringify({
      ...values,
      _step: iteration,
      _timestamp: time / 1000,
      _runtime: Math.max(0, time - this.#startedAt) / 1000,
    });
  }

  async #post(content: StreamedFiles): Promise<void> {
    const { baseUrl, entity, project, id } = this.#state;
    const path = [entity ?? '', project, id].map(encodeURIComponent).join('/');
    await this.#request(`${baseUrl}/files/${path}/file_stream`, content);
  }

  async #request(url: string, body: unknown): Promise<unknown> {
    const authorization = `Basic ${Buffer.from(`api:${this.#key}`).toString('base64')}`;
    const secrets = [this.#key, authorization];
    return await requestJson({ url, body, authorization, secrets, signal: this.#signal });
  }
}
