/**
 * What NVIDIA's data sheets give of cards by the name that the driver has for them, the first that fits:
 * dense bf16 in TFLOP/s, memory in TB/s. Cards of less power (PCIe, NVL) share a name with those in sockets
 * but for a word behind it.
 */
const cards = [
  [/H200 NVL/, { peakTflops: 835, memoryTbPerS: 4.8 }],
  [/H200|GH200 144G/, { peakTflops: 989, memoryTbPerS: 4.8 }],
  [/H100 PCIe/, { peakTflops: 756, memoryTbPerS: 2.0 }],
  [/H100 NVL/, { peakTflops: 835, memoryTbPerS: 3.9 }],
  [/H100|GH200/, { peakTflops: 989, memoryTbPerS: 3.35 }],
  [/A100.*80GB/, { peakTflops: 312, memoryTbPerS: 2.0 }],
  [/A100/, { peakTflops: 312, memoryTbPerS: 1.6 }],
];

/**
 * The figures of a card, undefined of one that is not known: a share of another card's peak would say
 * nothing.
 */
export function cardFigures(name) {
  return cards.find(([pattern]) => pattern.test(name ?? ''))?.[1];
}
