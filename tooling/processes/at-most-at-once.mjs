/**
 * Starts `job` for every item in order, but runs at most `limit` jobs at the same time.
 * @returns a promise for each item; after one promise has failed, the later promises need no handler
 */
export function atMostAtOnce({ limit, items }, job) {
  const waiting = [];
  let numFree = limit;
  const enter = async () => {
    if (numFree > 0) numFree -= 1;
    else await new Promise((resolve) => waiting.push(resolve));
  };
  const leave = () => {
    const next = waiting.shift();
    if (next === undefined) numFree += 1;
    else next();
  };
  return items.map((item) => {
    const result = enter()
      .then(() => job(item))
      .finally(leave);
    result.catch(() => {});
    return result;
  });
}
