import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describeGptModel, parseFlags, validateConfiguration } from '@mtl/configuration';
import { paddedVocabularySize } from '@mtl/models';
import { describe, expect, it } from 'vitest';
import { benchmarkPresets, llamaWidths } from '../benchmark-presets.mjs';
import { formatTable } from './format-table.mjs';
import { gpuDataSheet } from './gpu-data-sheets.mjs';
import { judge } from './judge.mjs';
import { comparedPresets, flopsPerToken } from './plans.mjs';
import { runMeasurement } from './run-measurement.mjs';
import { largestCommon, searchMicroBatch } from './search-micro-batch.mjs';

const outOfMemory = { out_of_memory: true };
/**
 * Returns a fake measurement with the given rates by micro-batch size. For a size without a rate, the
 * measurement runs out of memory.
 */
const rates = (byMicroBatch) => (microBatch) =>
  byMicroBatch[microBatch] === undefined
    ? outOfMemory
    : { tokens_per_s: byMicroBatch[microBatch], peak_bytes: microBatch * 100 };

describe('the search for the best micro-batch', () => {
  const candidates = [2, 4, 8, 16];
  const tried = ({ results }) => results.map(({ micro_batch }) => micro_batch);

  it('ends where memory is full, and takes the fastest before', () => {
    const found = searchMicroBatch({ candidates, measure: rates({ 2: 10, 4: 12 }) });
    expect(tried(found)).toEqual([2, 4, 8]);
    expect(found.best.micro_batch).toBe(4);
  });

  it('goes on after one slower rate and ends after two', () => {
    const once = searchMicroBatch({ candidates, measure: rates({ 2: 10, 4: 9, 8: 11, 16: 10.9 }) });
    expect(tried(once)).toEqual([2, 4, 8, 16]);
    expect(once.best.micro_batch).toBe(8);
    const twice = searchMicroBatch({ candidates, measure: rates({ 2: 10, 4: 9, 8: 8, 16: 20 }) });
    expect(tried(twice)).toEqual([2, 4, 8]);
  });

  it('ends where a measurement failed, and keeps what was measured before', () => {
    const measure = (microBatch) =>
      microBatch === 4 ? { error: 'the driver is gone' } : { tokens_per_s: microBatch, peak_bytes: 1 };
    const found = searchMicroBatch({ candidates, measure });
    expect(tried(found)).toEqual([2, 4]);
    expect(found.best.micro_batch).toBe(2);
    expect(largestCommon(found, found).ours.micro_batch).toBe(2);
  });

  it('has no best where nothing fits', () => {
    expect(searchMicroBatch({ candidates, measure: () => outOfMemory }).best).toBeUndefined();
  });

  it('compares memory at the largest micro-batch that both ran', () => {
    const ours = searchMicroBatch({ candidates, measure: rates({ 2: 1, 4: 2, 8: 3, 16: 4 }) });
    const theirs = searchMicroBatch({ candidates, measure: rates({ 2: 1, 4: 2 }) });
    expect(largestCommon(ours, theirs).theirs.micro_batch).toBe(4);
    expect(largestCommon(ours, { results: [outOfMemory] })).toBeUndefined();
  });
});

describe('the data sheet of a GPU', () => {
  it.each([
    ['NVIDIA H100 80GB HBM3', 989, 3.35],
    ['NVIDIA H200', 989, 4.8],
    ['NVIDIA H100 PCIe', 756, 2],
    ['NVIDIA A100-SXM4-40GB', 312, 1.6],
  ])('follow from its name: %s', (name, peakTflops, memoryTbPerS) => {
    expect(gpuDataSheet(name)).toEqual({ peakTflops, memoryTbPerS });
  });

  it('are not known of others, nor of none', () => {
    expect(gpuDataSheet('emulation on the host')).toBeUndefined();
    expect(gpuDataSheet(undefined)).toBeUndefined();
  });
});

describe('the goals', () => {
  const preset = 'gpt2-1.3b';
  const peakTflops = 989;
  // returns the tokens/s at which a run reaches the fraction `share` of the GPU's peak FLOPs
  const computeRate = (share) => (share * 989e12) / flopsPerToken(preset).full;
  const run = (more) => ({
    micro_batch: 4,
    tokens_per_s: computeRate(0.56),
    peak_bytes: 79,
    step_ms: 100,
    host_ms: 30,
    losses: [11],
    ...more,
  });
  const side = (more) => ({ results: [run(more)], best: run(more) });
  const theirs = side({ tokens_per_s: computeRate(0.4), peak_bytes: 100 });
  const missed = (more, peer = theirs) =>
    judge({ preset, ours: side(more), theirs: peer ?? undefined, peakTflops })
      .checks.filter(({ reached }) => !reached)
      .map(({ name }) => name);

  it('are reached by a run that reaches them, and each is missed by one that does not', () => {
    expect(missed({})).toEqual([]);
    expect(missed({ tokens_per_s: computeRate(0.54) })).toEqual(['share of peak']);
    expect(missed({ tokens_per_s: computeRate(0.45) })).toEqual(['speed', 'share of peak']);
    expect(missed({ peak_bytes: 81 })).toEqual(['memory']);
    expect(missed({ host_ms: 97 })).toEqual(['host']);
    expect(missed({ losses: [10.8] })).toEqual(['first loss']);
  });

  it('cannot be reached by what was not measured', () => {
    expect(missed({ host_ms: undefined })).toEqual(['host']);
    expect(missed({}, null)).toEqual(['speed', 'memory', 'first loss']);
    expect(missed({}, { results: [{ micro_batch: 4, ...outOfMemory }], best: undefined })).toEqual([
      'speed',
      'memory',
      'first loss',
    ]);
    const none = { results: [outOfMemory], best: undefined };
    const nothing = judge({ preset, ours: none, theirs, peakTflops });
    expect(nothing.checks.some(({ reached }) => reached)).toBe(false);
    expect(formatTable([nothing], peakTflops)).toContain('does not fit');
  });

  it('ask for a planner that is at most a tenth off, where there is a profile', () => {
    const formatRow = (step_ms) =>
      judge({ preset, ours: side({}), theirs, predicted: { step_ms }, peakTflops });
    const isMissed = (step_ms) => formatRow(step_ms).checks.some(({ reached }) => !reached);
    expect([89, 91, 109, 111].map(isMissed)).toEqual([true, false, false, true]);
    expect(formatTable([formatRow(91)], peakTflops)).toContain('| 0.91 |');
    expect(formatTable([formatRow(89)], peakTflops)).toContain('| 0.89 (missed) |');
  });

  it('have no share of a peak that is not known', () => {
    const unknown = judge({ preset, ours: side({}), theirs });
    const [share] = unknown.checks.filter(({ name }) => name === 'share of peak');
    expect(share).toMatchObject({ value: null, reached: false });
    expect(formatTable([unknown])).toContain('of an unknown peak');
    expect(formatTable([unknown])).toContain('| - (missed) | - |');
  });

  it('are compared with a PyTorch that did not compile only with a mark', () => {
    const row = (peer) =>
      formatTable([judge({ preset, ours: side({}), theirs: peer, peakTflops })], peakTflops);
    expect(row(theirs)).not.toContain('not compiled');
    expect(row(side({ not_compiled: 'no Triton' }))).toContain('4 (not compiled)');
  });

  it('count attention in full and by half', () => {
    // 24 layers with hidden size 2048, sequence length 2048, vocabulary size 50304: 72 L H^2 + 6 V H + 12 L H
    // S, or 6 L H S
    const rest = 72 * 24 * 2048 ** 2 + 6 * 50304 * 2048;
    expect(flopsPerToken(preset).full).toBe(rest + 12 * 24 * 2048 * 2048);
    expect(flopsPerToken(preset).halved).toBe(rest + 6 * 24 * 2048 * 2048);
    // a Llama with queries, shared keys and values, projection, gated feed-forward network, and a head of
    // 128,256 tokens
    const weights = 16 * (2048 * (2048 + 2 * 512) + 2048 ** 2 + 3 * 2048 * 8192) + 128_256 * 2048;
    expect(flopsPerToken('llama-1.2b').full).toBe(6 * weights + 12 * 16 * 2048 * 2048);
    const { ours } = judge({ preset, ours: side({}), theirs, peakTflops });
    expect(ours.peak_share).toBeCloseTo(0.56, 10);
    expect(ours.peak_share_halved).toBeLessThan(ours.peak_share);
  });
});

describe('a measurement', () => {
  const failingWith = (text) => ({ command: 'sh', args: ['-c', `echo '${text}' >&2; exit 1`] });

  it.each([
    "KernelError: matmul: the device has no 2 bytes { code: 'MTL_OUT_OF_MEMORY' }",
    'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB',
    'torch.AcceleratorError: CUDA error: out of memory',
    'RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`',
    'RuntimeError: Triton Error [CUDA]: CUDA_ERROR_OUT_OF_MEMORY',
  ])('that does not fit the memory of the GPU is a result: %s', (text) => {
    expect(runMeasurement(failingWith(text.replaceAll("'", '')))).toEqual(outOfMemory);
  });

  it('that fails otherwise is an error with what was said', () => {
    expect(() => runMeasurement(failingWith('an illegal memory access'))).toThrow('illegal memory access');
  });

  it('ends after its time though it hears no signal that could be heard', () => {
    // this program ignores SIGTERM and ends after half a minute
    const deaf = "trap '' TERM; i=0; while [ $i -lt 30 ]; do sleep 1; i=$((i + 1)); done";
    const start = performance.now();
    expect(() => runMeasurement({ command: 'sh', args: ['-c', deaf], seconds: 1 })).toThrow('ETIMEDOUT');
    expect(performance.now() - start).toBeLessThan(20_000);
  }, 60_000);
});

describe('a script of the peer that is not there', () => {
  it.each(['bench-cuda.mjs', '../compare-with-pytorch.mjs'])(
    'is one error of %s, before anything is timed',
    (name) => {
      const { status, stdout, stderr } = spawnSync(
        process.execPath,
        [fileURLToPath(new URL(name, import.meta.url))],
        { encoding: 'utf8', env: { ...process.env, MTL_PEER: '/no/such/peer.py' } },
      );
      expect(stderr).toMatch(/^error\[MTL_PEER\]: MTL_PEER names \/no\/such\/peer.py.*\n {2}remedy: .*\n$/);
      expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    },
  );
});

describe('predicted-memory.mjs', () => {
  const named = comparedPresets.filter((name) => llamaWidths[name] === undefined);
  it.each(named)('plans the model that is timed: %s', (preset) => {
    const configuration = validateConfiguration(parseFlags(['--preset', preset]));
    const { numLayers, hiddenSize, numAttentionHeads, sequenceLength } = configuration.model;
    const vocabSize = paddedVocabularySize(describeGptModel(configuration.model, 50_257));
    const [layers, hidden, heads, sequence, vocabulary] = benchmarkPresets[preset];
    expect({ numLayers, hiddenSize, numAttentionHeads, sequenceLength, vocabSize }).toEqual({
      numLayers: layers,
      hiddenSize: hidden,
      numAttentionHeads: heads,
      sequenceLength: sequence,
      vocabSize: vocabulary,
    });
  });

  it('prints a row for each micro-batch that is tried', () => {
    const script = fileURLToPath(new URL('predicted-memory.mjs', import.meta.url));
    const args = [script, '--presets', 'megatron-1.2b'];
    const { stdout, status } = spawnSync(process.execPath, args, { encoding: 'utf8' });
    expect(status).toBe(0);
    const [, , ...rows] = stdout.trim().split('\n');
    expect(rows.map((row) => row.split(' | ')[1])).toEqual(['4', '8', '16', '32']);
    // 1.2 billion parameters with two bytes each, and 16 bytes for each parameter's gradient and optimizer
    // state
    for (const row of rows) expect(Number(row.split(' | ')[2])).toBeCloseTo((1.213e9 * 18) / 2 ** 30, 0);
  });
});
