import type { RunStart } from './run-record.js';

/** What a start ran under besides its flags, by name; one line of text or a number each. */
export function conditionsOf(start: RunStart): Readonly<Record<string, unknown>> {
  return {
    model: start.model,
    preset: start.preset,
    task: start.task,
    commit: start.commit,
    ...start.versions,
    'instruction set': start.instructionSet,
    device: start.device,
    threads: start.threads.count,
    processes: start.layout.worldSize,
    'data-parallel': start.layout.data,
    'train iterations': start.trainIterations,
    datasets: start.datasets.map(({ sampledSha256 }) => sampledSha256.slice(0, 12)).join(' '),
  };
}
