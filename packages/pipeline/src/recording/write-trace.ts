import { existsSync, rmSync, writeFileSync } from 'node:fs';
import type { ProcessGroup, TraceEntry } from '@mtl/comm';
import { ConfigurationError } from '@mtl/errors';
import { renameFileSync } from '@mtl/errors/files';
import { type Device, Tensor } from '@mtl/kernels';
import { mergeTraces, type RankTrace } from '../measured/merge-traces.js';
import type { RecordedSpan } from '../measured/pipeline-recorder.js';
import { clockOffset, nowNs } from './clock.js';

export interface WriteTraceOptions {
  /** The path of the trace, which is written by the group's first rank. */
  readonly file: string;
  /** All ranks of the job. Every rank must call `writeTrace`. */
  readonly group: ProcessGroup;
  /** The ranks of this rank's pipeline; undefined if the complete model is on this rank. */
  readonly pipeline?: ProcessGroup | undefined;
  /** The activities of this rank: `ActivityRecorder.take()`. */
  readonly spans: readonly RecordedSpan[];
  /**
   * The operations of this rank's groups in the same steps, as returned by `takeTrace()` of the rank's world.
   */
  readonly operations: readonly TraceEntry[];
  /** The device of the tensors that the group communicates. Default: cpu. */
  readonly device?: Device;
}

/**
 * Gathers the activities of all ranks on the first rank and writes them as a Chrome trace, for
 * ui.perfetto.dev and `mtl schedule --compare`.
 *
 * @throws ConfigurationError `MTL_TRACE_FILE` on the first rank if the file cannot be written
 */
export function writeTrace(options: WriteTraceOptions): void {
  const { file, group, pipeline, spans, operations, device = 'cpu' } = options;
  const own: RankTrace = {
    rank: group.ranks[group.rank]!,
    pipeline: pipeline?.ranks[0] ?? group.ranks[group.rank]!,
    stage: pipeline?.rank ?? 0,
    clockOffsetNs: clockOffset({ group, now: nowNs, device }),
    spans,
    operations,
  };
  const ranks = gatherOnFirst(own, { group, device });
  if (ranks === undefined) return;
  const unfinished = `${file}.new`;
  try {
    // a program that waits for the file, such as mtl watch, must not see an incomplete file
    writeFileSync(unfinished, `${JSON.stringify(mergeTraces(ranks))}\n`);
    renameFileSync(unfinished, file);
  } catch (cause) {
    if (existsSync(unfinished)) rmSync(unfinished);
    throw new ConfigurationError('MTL_TRACE_FILE', `${file}: ${(cause as Error).message}`, {
      expected: 'a file that can be written',
      cause,
    });
  }
}

/**
 * Gathers a value from every rank, in rank order, on the first rank. Returns undefined on all other ranks.
 */
function gatherOnFirst<Value>(
  value: Value,
  { group, device }: { readonly group: ProcessGroup; readonly device: Device },
): Value[] | undefined {
  const bytes = new TextEncoder().encode(JSON.stringify(value));
  const length = Tensor.from([bytes.length], { shape: [1], dtype: 'int32', device });
  const lengths = Tensor.empty({ shape: [group.size], dtype: 'int32', device });
  group.allGather({ output: lengths, input: length }).wait();
  const sizes = lengths.toArray();
  length.dispose();
  lengths.dispose();
  if (group.rank > 0) {
    const message = Tensor.from(bytes, { shape: [bytes.length], dtype: 'uint8', device });
    group.send(message, { to: 0 }).wait();
    message.dispose();
    return undefined;
  }
  const others = sizes.slice(1).map((size, index): Value => {
    const message = Tensor.empty({ shape: [size], dtype: 'uint8', device });
    group.receive(message, { from: index + 1 }).wait();
    const text = new TextDecoder().decode(message.read<'uint8'>());
    message.dispose();
    return JSON.parse(text);
  });
  return [value, ...others];
}
