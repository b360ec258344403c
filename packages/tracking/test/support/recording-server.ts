import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface RecordedRequest {
  readonly method: string;
  readonly path: string;
  readonly authorization: string | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it.
  readonly body: any;
}

export interface Answer {
  readonly status?: number;
  readonly body?: unknown;
  /** True if the server never answers. */
  readonly hangs?: boolean;
  /** True if the server closes the connection instead of answering. */
  readonly closes?: boolean;
}

/** A server on loopback that records the requests it receives; `answer` may be replaced at any time. */
export class RecordingServer {
  readonly requests: RecordedRequest[] = [];
  readonly #server: Server;

  private constructor(public answer: (request: RecordedRequest) => Answer) {
    this.#server = createServer((message, response) => {
      const chunks: Buffer[] = [];
      message.on('data', (chunk: Buffer) => chunks.push(chunk));
      message.on('end', () => {
        const text = Buffer.concat(chunks).toString('utf8');
        const request = {
          method: message.method!,
          path: message.url!,
          authorization: message.headers.authorization,
          body: text === '' ? undefined : JSON.parse(text),
        };
        this.requests.push(request);
        const { status = 200, body = {}, hangs = false, closes = false } = this.answer(request);
        if (closes) message.socket.destroy();
        if (hangs || closes) return;
        response.writeHead(status, { 'content-type': 'application/json' });
        response.end(JSON.stringify(body));
      });
    });
  }

  static async start(answer: (request: RecordedRequest) => Answer): Promise<RecordingServer> {
    const recorder = new RecordingServer(answer);
    await new Promise<void>((resolve) => recorder.#server.listen(0, '127.0.0.1', resolve));
    return recorder;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** Answers like wandb: creates any run, in the requested project. */
export function wandbAnswer({ path, body }: RecordedRequest): Answer {
  if (path !== '/graphql') return {};
  const { name, displayName, project, entity } = body.variables;
  const bucket = { name, displayName, project: { name: project, entity: { name: entity ?? 'owner' } } };
  return { body: { data: { upsertBucket: { bucket, inserted: true } } } };
}

/** Answers like MLflow if the experiment does not exist yet. */
export function mlflowAnswer({ path }: RecordedRequest): Answer {
  if (path.includes('/experiments/get-by-name'))
    return { status: 404, body: { error_code: 'RESOURCE_DOES_NOT_EXIST', message: 'no such experiment' } };
  if (path.endsWith('/experiments/create')) return { body: { experiment_id: '7' } };
  if (path.endsWith('/runs/create')) return { body: { run: { info: { run_id: 'run-of-mlflow' } } } };
  return {};
}
