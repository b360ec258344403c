/**
 * Stores 32 levels of 5 bits: first their fifth bits as one 32-bit integer, then their low 4 bits in 16
 * bytes. The low half of each byte belongs to the first 16 levels, and the high half to the last 16.
 */
export function setFiveBitLevels(view: DataView, at: number, levelAt: (index: number) => number): void {
  let high = 0;
  for (let index = 0; index < 16; index++) {
    const [low, upper] = [levelAt(index), levelAt(index + 16)];
    view.setUint8(at + 4 + index, (low & 15) | ((upper & 15) << 4));
    high |= ((low >> 4) << index) | ((upper >> 4) << (index + 16));
  }
  view.setUint32(at, high >>> 0, true);
}
