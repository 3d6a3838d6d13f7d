// What the system has made of the events that it acknowledged: lost, refused, disordered, doubled.

/** Counts of one cell. An origin is `[writer, number]`. */
export class Wrong {
  lost = 0;
  refused = 0;
  disordered = 0;
  doubled = 0;

  /**
   * Compares the acknowledged events of a session with the stored ones, in their order. `lacking` are acknowledged
   * events whose change of the state is not there; an event that is gone as well as its change counts once. A pair is
   * disordered if one writer's event stands behind a later one of it.
   */
  compare(acknowledged, stored, lacking) {
    const found = new Set(stored.map(String));
    const gone = acknowledged.map(String).filter((origin) => !found.has(origin));
    this.lost += new Set([...gone, ...lacking.map(String)]).size;
    this.doubled += stored.length - found.size;
    const latest = new Map();
    for (const [writer, number] of stored) {
      if (number < (latest.get(writer) ?? -1)) this.disordered += 1;
      latest.set(writer, number);
    }
  }

  counts() {
    return {lost: this.lost, refused: this.refused, disordered: this.disordered, doubled: this.doubled};
  }
}
