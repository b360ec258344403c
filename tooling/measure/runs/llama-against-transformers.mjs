#!/usr/bin/env node
/**
 * Compares the training step of a Llama with SmolLM-135M's size (including AdamW and clipping) with
 * transformers' LlamaForCausalLM. With `--lora-rank`, compares the step of its adapters with PEFT's step.
 * With a Qwen3-MoE or a Mixtral, compares with an implementation of experts in transformers. Both sides have
 * the same weights and the same tokens. Losses and gradient norms are compared, both sides take turns, and
 * medians are printed. The exit status is 1 if a goal is missed. A run measures only one configuration,
 * because the memory peak of a process never falls.
 *   npm run dev -- llama-against-transformers [--model smollm|qwen-moe|qwen-dense|mixtral]
 *     [--experts grouped_mm|eager] [--dtype float32] [--lora-rank 0] [--compile] [--threads 2] [--rounds 5] [--batch-size 1]
 *     [--seq-length 1024]
 * MTL_PEER_PYTHON names a Python with torch, transformers and peft (default python3).
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { cpus, loadavg, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { hostInformation, memoryStatistics, setNumThreads } from '@mtl/kernels';
import { LlamaSide, models, randomStep } from './llama-side.mjs';
import { PeerProcess } from './peer-process.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const { values } = parseArgs({
  options: {
    model: { type: 'string', default: 'smollm' },
    experts: { type: 'string' },
    dtype: { type: 'string', default: 'float32' },
    'lora-rank': { type: 'string', default: '0' },
    compile: { type: 'boolean', default: false },
    threads: { type: 'string', default: '2' },
    rounds: { type: 'string', default: '5' },
    'batch-size': { type: 'string', default: '1' },
    'seq-length': { type: 'string', default: '1024' },
  },
});
const { dtype } = values;
const model = models[values.model];
const goals = {
  speed: model.numExperts === undefined ? { float32: 1.3, bfloat16: 1.4 }[dtype] : 1.5,
  memory: 0.8,
};
/**
 * The largest allowed differences between the two losses and between the two gradient norms of the first
 * step, by precision.
 */
const bounds = { float32: { loss: 1e-5, norm: 1e-4 }, bfloat16: { loss: 2e-3, norm: 2e-2 } }[dtype];
const [threads, loraRank] = [Number(values.threads), Number(values['lora-rank'])];
const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
const mebibytes = (bytes) => `${Math.round(bytes / 2 ** 20)} MiB`;

setNumThreads(threads);
const peer = new PeerProcess(join(here, 'llama_peer.py'));
const versions = await peer.versions();
if (!versions) throw new Error('MTL_PEER_PYTHON names no Python with torch and transformers');
const { instructionSet, onednnVersion } = hostInformation();
console.log(
  `${cpus()[0].model}, ${threads} threads, ${instructionSet}, oneDNN ${onednnVersion}, Node ${process.version}; ` +
    `torch ${versions.torch}, transformers ${versions.transformers}; load ${loadavg()[0].toFixed(1)}`,
);
const directory = mkdtempSync(join(tmpdir(), 'mtl-llama-bench-'));
const side = new LlamaSide({ dtype, loraRank, model });
const places = { base: join(directory, 'base'), adapters: loraRank > 0 ? join(directory, 'adapters') : null };
try {
  await side.save(places);
  const { compile: compiled, experts = null } = values;
  await peer.ask({ do: 'build', ...places, dtype, threads, compiled, experts });
} finally {
  rmSync(directory, { recursive: true });
}
const runs = { ours: [], theirs: [] };
const numWarmUpSteps = 2;
for (let step = 0; step < numWarmUpSteps + Number(values.rounds); step++) {
  const { rows, batch } = randomStep({
    step,
    batchSize: Number(values['batch-size']),
    sequenceLength: Number(values['seq-length']),
    vocabularySize: model.vocabularySize,
  });
  const [theirs, ours] = [await peer.ask({ do: 'step', rows }), side.step(batch)];
  for (const key of step === 0 ? ['loss', 'norm'] : []) {
    const difference = Math.abs(ours[key] / theirs[key] - 1);
    console.log(`${key} of the first step: ${ours[key]}, ${theirs[key]}; ${difference.toExponential(1)}`);
    if (!(difference <= bounds[key])) throw new Error(`${key} differs by more than ${bounds[key]}`);
  }
  if (step < numWarmUpSteps) continue;
  runs.ours.push(ours);
  runs.theirs.push(theirs);
}
const { bytes: theirBytes } = await peer.ask({ do: 'memory' });
peer.close();
const ourBytes = 1024 * process.resourceUsage().maxRSS;
const [ours, theirs] = ['ours', 'theirs'].map((name) => median(runs[name].map(({ wall }) => wall)));
const speed = theirs / ours;
const memory = ourBytes / theirBytes;
const verdict = (isReached, goal) => `goal ${goal}${isReached ? '' : ' MISSED'}`;
const passes = median(runs.ours.map((run) => run.passes));
const what = `${values.model}${values.experts === undefined ? '' : `, experts ${values.experts}`}, ${dtype}${loraRank > 0 ? `, LoRA of rank ${loraRank}` : ''}${values.compile ? ', compiled' : ''}`;
console.log(
  `${what}: step ${ours.toFixed(3)} s here (passes ${passes.toFixed(3)} s), ${theirs.toFixed(3)} s there`,
);
console.log(`  speed x${speed.toFixed(2)} (${verdict(speed >= goals.speed, goals.speed)})`);
console.log(
  `  memory ${mebibytes(ourBytes)} here (allocator ${mebibytes(memoryStatistics('cpu').peakBytes)}), ` +
    `${mebibytes(theirBytes)} there: x${memory.toFixed(2)} (${verdict(memory <= goals.memory, goals.memory)})`,
);
side.dispose();
process.exitCode = speed >= goals.speed && memory <= goals.memory ? 0 : 1;
