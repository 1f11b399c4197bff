// A box that follows the pointer and tells the figures of the nearest mark. Without it, browsers show them as titles.
(() => {
  const box = document.createElement("div");
  box.className = "tip";
  box.hidden = true;
  document.body.append(box);
  for (const svg of document.querySelectorAll("figure.chart > svg")) {
    const marks = [...svg.querySelectorAll(".mark")].map((mark) => {
      const title = mark.querySelector("title");
      const text = title.textContent;
      title.remove();
      return { mark, text };
    });
    let lit = null;
    const dim = () => {
      if (lit) lit.classList.remove("lit");
      lit = null;
      box.hidden = true;
    };
    svg.addEventListener("pointermove", (event) => {
      let best = null;
      let nearest = 40 * 40;
      for (const each of marks) {
        const r = each.mark.getBoundingClientRect();
        const x = r.left + r.width / 2 - event.clientX;
        const y = r.top + r.height / 2 - event.clientY;
        const distance = x * x + y * y;
        if (distance < nearest) {
          nearest = distance;
          best = each;
        }
      }
      dim();
      if (!best) return;
      lit = best.mark;
      lit.classList.add("lit");
      box.textContent = best.text;
      box.hidden = false;
      const left = Math.min(event.clientX + 14, document.documentElement.clientWidth - box.offsetWidth - 8);
      box.style.left = `${Math.max(8, left)}px`;
      box.style.top = `${event.clientY + 16}px`;
    });
    svg.addEventListener("pointerleave", dim);
  }
})();
