// SPDX-License-Identifier: Apache-2.0
// The what-if sliders: every setting is an index into figures that were reckoned beforehand. No network, no library.
"use strict";
(function () {
  const grid = JSON.parse(document.getElementById("grid").textContent);
  const names = {
    precision: ["precision", "精度"], recompute: ["recompute", "重算"], mp: ["tensor parallel (mp)", "张量并行 (mp)"],
    pp: ["pipeline (pp)", "流水线 (pp)"], data: ["data parallel", "数据并行"], stage: ["sharding stage", "分片阶段"],
    micro: ["micro-batch of a device", "单设备微批"],
  };
  const settings = { none: ["none", "无"], selective: ["scores", "注意力分数"], full: ["full", "全部"] };
  const heads = {
    device: ["device", "设备"], needs: ["needs", "需要"], fits: ["fits", "能否放下"], rate: null,
    hours: ["hours", "小时"], energy: ["energy", "能耗"], price: ["price of a device hour", "设备每小时价格"], cost: ["cost", "费用"],
  };
  const labels = Object.keys(heads).map((h) => (h === "rate" ? [`${grid.units[0]}/s`, `${grid.units[1]}/秒`] : heads[h]));
  const axes = Object.keys(grid.axes);
  const at = {};
  for (const a of axes) at[a] = grid.axes[a].indexOf(grid.start[a]);
  const prices = grid.devices.map((d) => d.price);
  let samples = grid.samples;

  const two = (pair) => `<span class="en">${pair[0]}</span><span class="zh">${pair[1]}</span>`;
  const three = (v) => (v === null || !isFinite(v) ? "–" : Number(v.toPrecision(3)).toLocaleString("en-US", { maximumFractionDigits: 6 }));
  const said = (v) => (settings[v] ? two(settings[v]) : v);
  const value = (a) => grid.axes[a][at[a]];
  const index = () => axes.reduce((i, a) => i * grid.axes[a].length + at[a], 0);

  function verdict(i, kind, memory) {
    if (grid.point[kind][i] === null) return "impossible";
    return grid.high[kind][i] <= memory ? "yes" : grid.point[kind][i] <= memory ? "tight" : grid.low[kind][i] <= memory ? "unlikely" : "no";
  }

  function rows() {
    const i = index(), count = value("mp") * value("pp") * value("data") * grid.cp;
    document.getElementById("whatif-rows").innerHTML = "";
    grid.devices.forEach((d, k) => {
      const kind = grid.memory_of[k], says = verdict(i, kind, d.memory), seconds = grid.seconds[k][i];
      const hours = seconds === null ? null : (seconds * samples) / 3600;
      const energy = hours === null ? null : (hours * count * d.watts) / 1000;
      const cost = hours === null || prices[k] === null ? null : hours * count * prices[k];
      const row = document.createElement("tr");
      row.dataset.device = d.id;
      const cells = [
        [`${count} x `, ""], [`${three(grid.point[kind][i])} GiB / ${d.memory} GiB`, "num"], [null, ""], [seconds === null ? "–" : three(1 / seconds), "num"],
        [three(hours), "num"], [energy === null ? "–" : `${three(energy)} kWh`, "num"], [null, "num"],
        [cost === null ? "–" : `${three(cost)} ${grid.currency}`, "num"],
      ];
      cells.forEach(([text, kind], c) => {
        const cell = row.insertCell();
        cell.className = c === 0 ? "lead" : kind;
        [cell.dataset.en, cell.dataset.zh] = labels[c];
        if (c === 0) cell.textContent = text + d.name;
        else if (c === 2) cell.innerHTML = `<span class="pill ${says}">${two(grid.words[says])}</span>`;
        else if (c === 6) {
          const box = document.createElement("input");
          Object.assign(box, { type: "number", min: 0, step: "any", value: prices[k] === null ? "" : prices[k] });
          box.setAttribute("aria-label", `price ${d.id}`);
          box.style.width = "6.5em";
          box.addEventListener("change", () => { prices[k] = box.value === "" || !(Number(box.value) >= 0) ? null : Number(box.value); rows(); });
          cell.append(box);
        } else cell.textContent = text;
      });
      document.getElementById("whatif-rows").append(row);
    });
  }

  function knob(a) {
    const label = document.createElement("label"), out = document.createElement("output"), slider = document.createElement("input");
    label.innerHTML = `${two(names[a])}: `;
    out.id = `value-${a}`;
    out.innerHTML = said(value(a));
    Object.assign(slider, { type: "range", min: 0, max: grid.axes[a].length - 1, step: 1, value: at[a], id: `knob-${a}` });
    slider.addEventListener("input", () => { at[a] = Number(slider.value); out.innerHTML = said(value(a)); rows(); });
    label.append(out, slider);
    return label;
  }

  const knobs = document.getElementById("knobs");
  for (const a of axes) if (grid.axes[a].length > 1) knobs.append(knob(a));
  const label = document.createElement("label"), box = document.createElement("input");
  label.innerHTML = two(grid.units);
  Object.assign(box, { type: "number", min: 1, step: "any", value: samples, id: "knob-samples" });
  box.addEventListener("change", () => { samples = Number(box.value) > 0 ? Number(box.value) : samples; rows(); });
  label.append(box);
  knobs.append(label);
  if (grid.shared) knobs.append(Object.assign(document.createElement("p"), { className: "note", innerHTML: two(grid.shared) }));
  document.getElementById("whatif-head").innerHTML = "<tr>" + labels.map((pair, c) => `<th${c === 0 || c === 2 ? "" : ' class="num"'}>${two(pair)}</th>`).join("") + "</tr>";
  rows();
})();
