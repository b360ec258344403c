import type { Layout, ModelSize } from '../../src/index.js';
import type { MeasuredRow } from './measured-row.js';

/** A GPT of Narayanan et al. 2021 and Korthikanti et al. 2022: sequences of 2048 tokens, 51,200 words. */
export const gpt = (numLayers: number, hiddenSize: number, numHeads: number): ModelSize => ({
  numLayers,
  hiddenSize,
  numHeads,
  sequenceLength: 2048,
  vocabularySize: 51_200,
});

/** FLOPs of an iteration with full recomputation, as Narayanan et al. 2021 count them (equation 3). */
function paperFlops(model: ModelSize, globalBatchSize: number): number {
  const { numLayers: l, hiddenSize: h, sequenceLength: s, vocabularySize: v } = model;
  return 96 * globalBatchSize * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
}

/** FLOPs of a sample without recomputation, attention in full (Korthikanti et al. 2022, equation 7). */
function modelFlops(model: ModelSize): number {
  const { numLayers: l, hiddenSize: h, sequenceLength: s, vocabularySize: v } = model;
  return 72 * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h));
}

interface Sizes {
  readonly t?: number;
  readonly p?: number;
  readonly d?: number;
  readonly v?: number;
  readonly b: number;
  readonly batch: number;
}

const full = ({ t = 1, p = 1, d = 1, v = 1, b, batch }: Sizes): Layout => ({
  tp: t,
  pp: p,
  dp: d,
  numChunks: v,
  microBatchSize: b,
  globalBatchSize: batch,
  recomputation: 'full',
});

/** Korthikanti et al. 2022 (arXiv 2205.05198), table 5 and the run of 530 B on 2240 GPUs. */
function korthikanti(): MeasuredRow[] {
  const rows: readonly (readonly [string, ModelSize, Sizes, readonly [number, number], boolean])[] = [
    ['22B', gpt(48, 6144, 64), { t: 8, b: 4, batch: 4 }, [1.42, 1.1], true],
    ['175B', gpt(96, 12_288, 96), { t: 8, p: 8, v: 3, b: 1, batch: 64 }, [18.13, 13.75], true],
    ['530B', gpt(105, 20_480, 128), { t: 8, p: 35, v: 3, b: 1, batch: 280 }, [49.05, 37.83], false],
    ['1T', gpt(128, 25_600, 160), { t: 8, p: 64, b: 1, batch: 512 }, [94.42, 71.49], false],
  ];
  const base = { set: 'Korthikanti table 5', profile: 'a100-80gb-megatron' };
  return rows.flatMap(([name, model, sizes, [fullSeconds, newSeconds], fitted]) => {
    const layout = full(sizes);
    const better: Layout = { ...layout, sequenceParallel: true, recomputation: 'selective' };
    return [
      { ...base, name: `${name} full`, model, layout, seconds: fullSeconds, fitted },
      { ...base, name: `${name} selective, sequence`, model, layout: better, seconds: newSeconds, fitted },
    ];
  });
}

/** Makes a row from the speed of a GPU. */
const ofTeraflops = (
  row: Omit<MeasuredRow, 'seconds' | 'fitted'> & { readonly teraflops: number },
): MeasuredRow => {
  const { teraflops } = row;
  const { tp: t, pp: p, dp: d, globalBatchSize } = row.layout;
  const seconds = paperFlops(row.model, globalBatchSize) / (t * p * d * teraflops * 1e12);
  return { ...row, seconds, fitted: false };
};

/** Makes a row from the speed of a GPU in a source that does not count recomputation. */
const ofModelTeraflops = (row: Parameters<typeof ofTeraflops>[0]): MeasuredRow => {
  const counted = ofTeraflops(row);
  return { ...counted, seconds: counted.seconds * (modelFlops(row.model) / paperFlops(row.model, 1)) };
};

const narayananProfile = 'a100-80gb-megatron-2021';

/** Narayanan et al. 2021 (arXiv 2104.04473), table 1. */
function narayananWeakScaling(): MeasuredRow[] {
  const rows: readonly (readonly [string, ModelSize, Sizes, number])[] = [
    ['1.7B', gpt(24, 2304, 24), { d: 32, b: 16, batch: 512 }, 137],
    ['3.6B', gpt(30, 3072, 32), { t: 2, d: 32, b: 16, batch: 512 }, 138],
    ['7.5B', gpt(36, 4096, 32), { t: 4, d: 32, b: 16, batch: 512 }, 142],
    ['18.4B', gpt(40, 6144, 48), { t: 8, d: 32, b: 8, batch: 1024 }, 135],
    ['39.1B', gpt(48, 8192, 64), { t: 8, p: 2, d: 32, b: 4, batch: 1536 }, 138],
    ['76.1B', gpt(60, 10_240, 80), { t: 8, p: 4, d: 32, v: 3, b: 2, batch: 1792 }, 140],
    ['145.6B', gpt(80, 12_288, 96), { t: 8, p: 8, d: 24, v: 2, b: 2, batch: 2304 }, 148],
    ['310.1B', gpt(96, 16_384, 128), { t: 8, p: 16, d: 15, v: 2, b: 1, batch: 2160 }, 155],
    ['529.6B', gpt(105, 20_480, 128), { t: 8, p: 35, d: 9, v: 3, b: 1, batch: 2520 }, 163],
    ['1T', gpt(128, 25_600, 160), { t: 8, p: 64, d: 6, b: 1, batch: 3072 }, 163],
  ];
  return rows.map(([name, model, sizes, teraflops]) =>
    ofTeraflops({
      set: 'Narayanan table 1',
      name,
      profile: narayananProfile,
      model,
      layout: full(sizes),
      teraflops,
    }),
  );
}

/**
 * Table 2, rows of PTD-P. The paper does not state the virtual stages: the values of figure 12 and table 1
 * are assumed, if the number of micro-batches allows them.
 */
function narayananComparison(): MeasuredRow[] {
  const rows: readonly (readonly [string, ModelSize, Sizes, number])[] = [
    ...(
      [
        [4, 153],
        [8, 149],
        [16, 141],
      ] as const
    ).map(
      ([d, teraflops]) =>
        [
          `175B on ${96 * d}`,
          gpt(96, 12_288, 96),
          { t: 8, p: 12, d, v: 4, b: 1, batch: 1536 },
          teraflops,
        ] as const,
    ),
    ...(
      [
        [2, 171],
        [4, 167],
        [8, 159],
      ] as const
    ).map(
      ([d, teraflops]) =>
        [
          `530B on ${280 * d}`,
          gpt(105, 20_480, 128),
          { t: 8, p: 35, d, v: 3, b: 1, batch: 2240 },
          teraflops,
        ] as const,
    ),
  ];
  return rows.map(([name, model, sizes, teraflops]) =>
    ofTeraflops({
      set: 'Narayanan table 2',
      name,
      profile: narayananProfile,
      model,
      layout: full(sizes),
      teraflops,
    }),
  );
}

/**
 * Table 2, rows of ZeRO-3: DeepSpeed without other parallelism, which shards parameters, gradients and
 * optimizer. Every second row is fitted, in the order of the table.
 */
function narayananZero3(): MeasuredRow[] {
  const gpt3 = gpt(96, 12_288, 96);
  const large = gpt(105, 20_480, 128);
  const rows: readonly (readonly [string, ModelSize, Sizes, number])[] = [
    ['175B on 384', gpt3, { d: 384, b: 4, batch: 1536 }, 144],
    ['175B on 768', gpt3, { d: 768, b: 2, batch: 1536 }, 88],
    ['175B on 1536', gpt3, { d: 1536, b: 1, batch: 1536 }, 44],
    ['530B on 640', large, { d: 640, b: 4, batch: 2560 }, 138],
    ['530B on 1120', large, { d: 1120, b: 2, batch: 2240 }, 98],
    ['530B on 2240', large, { d: 2240, b: 1, batch: 2240 }, 48],
  ];
  return rows.map(([name, model, sizes, teraflops], index) => ({
    ...ofTeraflops({
      set: 'Narayanan ZeRO-3',
      name,
      profile: 'a100-80gb-zero3',
      model,
      layout: full(sizes),
      teraflops,
    }),
    fitted: index % 2 === 0,
  }));
}

/** A Llama 3 with sequences of 8192 tokens. */
const llama3 = (
  numLayers: number,
  hiddenSize: number,
  numHeads: number,
  ffnHiddenSize: number,
): ModelSize => ({
  ...gpt(numLayers, hiddenSize, numHeads),
  block: 'llama',
  numQueryGroups: 8,
  ffnHiddenSize,
  sequenceLength: 8192,
  vocabularySize: 128_256,
});

/**
 * Benchmarks of torchtitan on H100 in bf16, in tokens per second of a GPU: FSDP alone (December 2024, tables
 * 1 and 3), and with tensor parallelism of 8 (June 2025). Rows in fp8 are left out. Fitted and held-out rows
 * form a chessboard, so that each half has every number of GPUs, and every technique.
 */
function torchtitan(): MeasuredRow[] {
  const small = llama3(32, 4096, 32, 14_336);
  const large = llama3(80, 8192, 64, 28_672);
  const alone = (d: number): Layout => ({ ...full({ d, b: 2, batch: 2 * d }), recomputation: 'selective' });
  const ofTensors = (d: number, b: number): Layout => ({
    ...full({ t: 8, d, b, batch: b * d }),
    sequenceParallel: true,
  });
  const eager = { fusesKernels: false };
  const asynchronous = { tensorOverlap: 'all' } as const;
  const selective = { ...ofTensors(8, 12), recomputation: 'selective' } as const;
  type Row = readonly [string, ModelSize, Layout, number, Partial<MeasuredRow>, boolean];
  const rows: readonly Row[] = [
    ['8B on 8', small, alone(8), 5762, eager, true],
    ['8B on 8, compiled', small, alone(8), 6667, {}, false],
    ['8B on 128', small, alone(128), 5605, eager, false],
    ['8B on 128, compiled', small, alone(128), 6514, {}, true],
    ['70B on 256, t 8', large, ofTensors(32, 16), 597.3, {}, true],
    ['70B on 256, t 8, asynchronous', large, ofTensors(32, 16), 652.4, asynchronous, false],
    ['8B on 64, t 8', small, selective, 4378, {}, false],
    ['8B on 64, t 8, asynchronous', small, selective, 4809.4, asynchronous, true],
  ];
  return rows.map(([name, model, layout, tokensPerSecond, settings, fitted]) => ({
    ...settings,
    set: 'torchtitan FSDP H100',
    name,
    profile: 'h100-96gb-torchtitan',
    model,
    layout,
    seconds: (layout.microBatchSize * model.sequenceLength) / (layout.tp * tokensPerSecond),
    fitted,
  }));
}

/**
 * Points of figures 11, 12, 13 and 18, read off the plots. For figure 13 only the best point of the larger
 * batch was read. The statements of the paper about figures 13 to 17 are in paper-orders.ts.
 */
function narayananFigures(): MeasuredRow[] {
  const rows: MeasuredRow[] = [];
  const add = (
    name: string,
    options: { model: ModelSize; sizes: Sizes; teraflops: number } & Partial<MeasuredRow>,
  ) => {
    const { model, sizes, teraflops, ...rest } = options;
    rows.push(
      ofTeraflops({
        ...rest,
        set: 'Narayanan figures',
        name,
        profile: narayananProfile,
        model,
        layout: full(sizes),
        teraflops,
      }),
    );
  };
  for (const [p, batch, teraflops] of [
    [1, 8, 165],
    [8, 8, 88],
    [1, 128, 178],
    [8, 128, 163],
  ] as const) {
    add(`11: p ${p}, batch ${batch}`, {
      model: gpt(3 * p, 20_480, 128),
      sizes: { t: 8, p, b: 1, batch },
      teraflops,
    });
  }
  add('13: t 8, p 8, batch 128', {
    model: gpt(32, 20_480, 128),
    sizes: { t: 8, p: 8, b: 1, batch: 128 },
    teraflops: 165,
  });
  const gpt3 = gpt(96, 12_288, 96);
  const batches = [12, 24, 36, 48, 60];
  const points = {
    plain: [82, 109, 122, 130, 135],
    interleaved: [119, 134, 141, 143, 146],
    unscattered: [107, 120, 127, 130, 131],
  };
  for (const [i, batch] of batches.entries()) {
    const sizes = { t: 8, p: 12, b: 1, batch };
    add(`12: 1F1B, batch ${batch}`, { model: gpt3, sizes, teraflops: points.plain[i]! });
    add(`12: interleaved, batch ${batch}`, {
      model: gpt3,
      sizes: { ...sizes, v: 4 },
      teraflops: points.interleaved[i]!,
    });
    add(`18: no scatter, batch ${batch}`, {
      model: gpt3,
      sizes: { ...sizes, v: 4 },
      teraflops: points.unscattered[i]!,
      scattersMessages: false,
    });
  }
  return rows;
}

/** Measurements of vTrain on several nodes with Megatron-DeepSpeed: (micro-batch, t, d, p) milliseconds. */
function deepspeed(): MeasuredRow[] {
  const groups: readonly (readonly [string, ModelSize, number, readonly (readonly number[])[]])[] = [
    [
      '3.6B',
      gpt(30, 3072, 32),
      512,
      [
        [2, 2, 32, 1, 4264.2],
        [4, 4, 16, 1, 4764.0],
        [8, 8, 8, 1, 5178.0],
        [2, 4, 16, 1, 6228.3],
        [64, 8, 8, 1, 9838.9],
      ],
    ],
    [
      '18.4B',
      gpt(40, 6144, 48),
      1024,
      [
        [8, 8, 32, 1, 9603.6],
        [4, 4, 32, 2, 10950.4],
        [8, 8, 4, 8, 11026.1],
      ],
    ],
    [
      '39.1B',
      gpt(48, 8192, 64),
      1536,
      [
        [2, 4, 8, 16, 14529.6],
        [2, 8, 16, 4, 14713.4],
        [2, 8, 8, 8, 15001.9],
        [3, 8, 8, 8, 15270.7],
        [6, 8, 4, 16, 16232.8],
        [8, 8, 4, 16, 16877.1],
        [3, 4, 16, 8, 17606.1],
        [6, 2, 32, 8, 23062.9],
        [6, 2, 16, 16, 27228.4],
      ],
    ],
    [
      '175B',
      gpt(96, 12_288, 96),
      1536,
      [
        [3, 8, 2, 32, 57324.4],
        [4, 8, 4, 16, 57504.3],
        [4, 4, 8, 16, 57720.0],
        [6, 4, 4, 32, 66632.5],
      ],
    ],
  ];
  return groups.flatMap(([name, model, batch, rows]) =>
    rows.map((row): MeasuredRow => {
      const [b, t, d, p, milliseconds] = row as [number, number, number, number, number];
      return {
        set: 'Megatron-DeepSpeed',
        name: `${name}, b ${b} t ${t} d ${d} p ${p}`,
        profile: 'a100-80gb-deepspeed',
        model,
        layout: full({ t, p, d, b, batch }),
        seconds: milliseconds / 1000,
        fitted: name === '3.6B',
      };
    }),
  );
}

/**
 * Shoeybi et al. 2019 (arXiv 1909.08053), figure 5: TFLOP/s of each V100 by the efficiencies of weak scaling
 * and the 39 of one GPU; and its headline, 15.1 PFLOP/s on 512. The paper does not say whether it counts
 * recomputation. If it did, one GPU could not reach the 71.9 TFLOP/s of Megatron-LM's README of 2020, which
 * does: the fitted efficiency of matmuls would be 0.52 of 130 TFLOP/s. So it is taken not to count it.
 */
function shoeybi(): MeasuredRow[] {
  const models = [gpt(40, 1536, 16), gpt(54, 1920, 20), gpt(64, 2304, 24), gpt(72, 3072, 32)];
  const one = 39;
  const efficiencies = { 1: [1, 0.95, 0.82, 0.77], 64: [0.96, 0.83, 0.79, 0.74] };
  const rows = ([1, 64] as const).flatMap((d) =>
    models.map((size, i) => {
      const t = 2 ** i;
      const model = { ...size, sequenceLength: 1024 };
      const teraflops = one * efficiencies[d][i]!;
      const layout = full({ t, d, b: 8, batch: 8 * d });
      const row = ofModelTeraflops({
        set: d === 1 ? 'Shoeybi model' : 'Shoeybi model and data',
        name: `${t * d} GPUs, t ${t}`,
        profile: 'v100-32gb-megatron',
        model,
        layout,
        teraflops,
      });
      return { ...row, fitted: t * d === 1 };
    }),
  );
  const { seconds, ...largest } = rows.at(-1)!;
  const headline = { ...largest, set: 'Headline runs', name: '8.3B on 512 V100', teraflops: 15_100 / 512 };
  return [...rows, ofModelTeraflops(headline)];
}

/** 1 T parameters on 3,072 A100: 502 PFLOP/s. */
function narayananHeadline(): MeasuredRow[] {
  const row = narayananWeakScaling().at(-1)!;
  return [ofTeraflops({ ...row, set: 'Headline runs', name: '1T on 3072 A100', teraflops: 502_000 / 3072 })];
}

/** Megatron-LM's README (core r0.8.0): model FLOPs of one H100 in TFLOP/s, attention in full. */
function megatronOnH100(): MeasuredRow[] {
  const rows: readonly (readonly [string, ModelSize, Sizes, number])[] = [
    ['1.7B', gpt(24, 2048, 16), { d: 48, b: 1, batch: 192 }, 408.8],
    ['7.1B', gpt(30, 4096, 32), { t: 2, d: 48, b: 1, batch: 192 }, 465.9],
    ['16B', gpt(32, 6144, 48), { t: 4, d: 48, b: 1, batch: 192 }, 489.1],
    ['32B', gpt(48, 7168, 56), { t: 8, d: 48, b: 1, batch: 192 }, 459.6],
    ['70B', gpt(84, 8192, 64), { t: 8, p: 2, d: 48, b: 1, batch: 384 }, 419.7],
    ['119B', gpt(92, 10_240, 80), { t: 8, p: 4, d: 48, b: 1, batch: 768 }, 420.5],
    ['177B', gpt(96, 12_288, 96), { t: 8, p: 6, d: 48, b: 1, batch: 1152 }, 432.8],
    ['314B', gpt(96, 16_384, 128), { t: 8, p: 8, d: 48, b: 1, batch: 1536 }, 474.4],
    ['462B', gpt(112, 18_432, 144), { t: 8, p: 16, d: 48, b: 1, batch: 3072 }, 459.9],
  ];
  return rows.map(([name, size, sizes, teraflops]) => {
    const model = { ...size, sequenceLength: 4096, vocabularySize: 131_072 };
    const layout: Layout = { ...full(sizes), sequenceParallel: true, recomputation: 'none' };
    return ofModelTeraflops({
      set: 'Megatron README H100',
      name,
      profile: 'h100-80gb-megatron',
      model,
      layout,
      teraflops,
    });
  });
}

/** Every measured row. */
export const paperRows: readonly MeasuredRow[] = [
  ...korthikanti(),
  ...narayananWeakScaling(),
  ...narayananComparison(),
  ...narayananZero3(),
  ...narayananFigures(),
  ...deepspeed(),
  ...shoeybi(),
  ...narayananHeadline(),
  ...megatronOnH100(),
  ...torchtitan(),
];
