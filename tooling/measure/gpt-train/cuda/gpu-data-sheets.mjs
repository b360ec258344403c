/**
 * Values from NVIDIA's data sheets, by the driver's names of GPUs: dense bf16 in TFLOP/s, and memory
 * bandwidth in TB/s. The first matching name counts. GPUs with less power (PCIe, NVL) have the name of an SXM
 * GPU with an additional word.
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
 * Returns the data sheet of the GPU with this name. Returns undefined for an unknown GPU, because a fraction
 * of a different GPU's peak would be meaningless.
 */
export function gpuDataSheet(name) {
  return dataSheets.find(([pattern]) => pattern.test(name ?? ''))?.[1];
}
