import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { freePort } from '@mtl/tooling/free-port';
import { reportEngine } from '@mtl/tooling/report-engine';
import { rankModule, workspaceFlags } from '@mtl/tooling/typescript-threads';

export interface RunProcessesOptions {
  readonly worldSize: number;
  /** Its default export runs in every process: (world, argument) to a result, both JSON. */
  readonly module: URL;
  readonly argument: unknown;
  /** `gloo`: every process says that it is on a host of its own. Default: shared memory. */
  readonly engine?: 'local' | 'gloo';
  /** The command that runs a rank's program; default none, the program itself. */
  readonly prefixOf?: (rank: number) => readonly string[];
}

/**
 * For tests and hooks that run processes: longer than `runProcesses` lets them live, on a machine that does
 * much else.
 */
export const processTestMs = 240_000;

/** The order that a process gets, as JSON in a file. */
export interface ProcessOrder {
  readonly module: string;
  readonly argument: unknown;
  readonly engine: 'local' | 'gloo';
  readonly worldSize: number;
  readonly port: number;
}

/** Runs ranks as processes of their own, over a native engine; their results by rank. */
export async function runProcesses<Result>(options: RunProcessesOptions): Promise<Result[]> {
  const { worldSize, module, argument, engine = 'local', prefixOf = () => [] } = options;
  const directory = mkdtempSync(join(tmpdir(), 'mtl-processes-'));
  const order: ProcessOrder = {
    module: rankModule(module).href,
    argument,
    engine,
    worldSize,
    port: await freePort(),
  };
  const program = fileURLToPath(rankModule(new URL('../ranks/rank-process.ts', import.meta.url)));
  const orderPath = join(directory, 'order.json');
  writeFileSync(orderPath, JSON.stringify(order));
  try {
    return await Promise.all(
      Array.from({ length: worldSize }, async (_, rank) => {
        const resultPath = join(directory, `result-${rank}.json`);
        // a rank that hangs is ended by its communication's time-out of a minute; this is for everything else
        const limits = {
          timeout: processTestMs - 10_000,
          killSignal: 'SIGKILL' as const,
          maxBuffer: 1 << 26,
        };
        const words = [process.execPath, ...workspaceFlags, '--expose-gc', program];
        const [command, ...rest] = [...prefixOf(rank), ...words] as [string, ...string[]];
        await promisify(execFile)(command, [...rest, String(rank), orderPath, resultPath], {
          ...limits,
          env: {
            ...process.env,
            MTL_JOB_SECRET: 'the secret of a test',
            MTL_SOCKET_INTERFACE: '127.0.0.1',
          },
        });
        const { used, result } = JSON.parse(readFileSync(resultPath, 'utf8')) as {
          used: string;
          result: Result;
        };
        if (worldSize > 1) reportEngine(used);
        return result;
      }),
    );
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
