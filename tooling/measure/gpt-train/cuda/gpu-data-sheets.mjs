/**
 * Numbers from NVIDIA's data sheets, by the driver's names of GPUs: dense bf16 in TFLOP/s, and memory in
 * TB/s. The first matching name counts. Names of GPUs with less power (PCIe, NVL) are the names of SXM GPUs
 * with an additional word.
 */
const dataSheets = [
  [/H200 NVL/, { peakTflops: 835, memoryTbPerS: 4.8 }],
  [/H200|GH200 144G/, { peakTflops: 989, memoryTbPerS: 4.8 }],
  [/H100 PCIe/, { peakTflops: 756, memoryTbPerS: 2.0 }],
  [/H100 NVL/, { peakTflops: 835, memoryTbPerS: 3.9 }],
  [/H100|GH200/, { peakTflops: 989, memoryTbPerS: 3.35 }],
  [/A100.*80GB/, { peakTflops: 312, memoryTbPerS: 2.0 }],
  [/A100/, { peakTflops: 312, memoryTbPerS: 1.6 }],
];

/**
 * Returns the data sheet of a GPU; undefined for an unknown GPU, because a share of another GPU's peak would
 * be meaningless.
 */
export function gpuDataSheet(name) {
  return dataSheets.find(([pattern]) => pattern.test(name ?? ''))?.[1];
}
